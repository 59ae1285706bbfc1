#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

namespace tracecast {

/// SplitMix64: the same seed gives the same numbers on every compiler and machine. Passed in, never
/// global. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  /// Standard normal. Source: Box and Muller, "A note on the generation of random normal deviates",
  /// 1958.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  /// Uniform in [0, bound); `bound` > 0. The bias is below 2^-32 for bounds up to 2^32.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
};

}  // namespace tracecast
