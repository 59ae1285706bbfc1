#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "traces/trace.hpp"

namespace tracecast::traces {

/// Stretches of time in order, none touching the next: a set of instants.
class Intervals {
 public:
  Intervals() = default;
  /// The union of `spans`; empty ones do not count.
  static Intervals union_of(std::vector<Span> spans);

  [[nodiscard]] std::span<const Span> spans() const { return spans_; }
  [[nodiscard]] bool empty() const { return spans_.empty(); }
  [[nodiscard]] std::int64_t length_ns() const { return before_.empty() ? 0 : before_.back(); }
  /// How much of [from, to) is in the set; 0 when to <= from. Logarithmic.
  [[nodiscard]] std::int64_t within(std::int64_t from_ns, std::int64_t to_ns) const;
  [[nodiscard]] bool contains(std::int64_t at_ns) const { return within(at_ns, at_ns + 1) > 0; }
  /// The stretches between the first and the last.
  [[nodiscard]] std::vector<Span> gaps() const;
  /// How much of the other set is in this one.
  [[nodiscard]] std::int64_t overlap_ns(const Intervals& other) const;

 private:
  [[nodiscard]] std::int64_t until(std::int64_t at_ns) const;

  std::vector<Span> spans_;
  std::vector<std::int64_t> before_;  ///< length of the set up to the end of each span
};

}  // namespace tracecast::traces
