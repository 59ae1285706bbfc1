#pragma once
#include <cstdint>
#include <limits>

namespace tracecast::traces {

/// a + b, or the largest number where that is beyond int64: sums over made-up traces must not
/// overflow. Needs a, b >= 0.
[[nodiscard]] constexpr std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return a > kMost - b ? kMost : a + b;
}

/// A count and the time that belongs to it.
struct Tally {
  std::uint64_t count = 0;
  std::int64_t ns = 0;
  void add(std::int64_t duration_ns) { add({1, duration_ns}); }
  void add(const Tally& other) {
    count += other.count;
    ns = saturating_sum(ns, other.ns);
  }
};

}  // namespace tracecast::traces
