#pragma once
#include <algorithm>
#include <cmath>

#include "sim/base/units.hpp"

namespace tracecast::cost {

/// What limits a kernel, each limit alone.
struct Roofs {
  Seconds compute{};
  Seconds memory{};
  bool under_occupied = false;  ///< too few blocks or threads to fill the GPU: Bound::Latency
  double sm_share = 1;          ///< share of the SMs that have a block, in (0, 1]
};

/// (a^3 + b^3 + c^3)^(1/3), of what is not negative.
[[nodiscard]] inline double cube_root_sum(double a, double b, double c) {
  const double high = std::max({a, b, c});
  if (high <= 0) return 0;
  const double x = a / high, y = b / high, z = c / high;
  return high * std::cbrt(x * x * x + y * y * y + z * z * z);
}

/// ((a^3 + b^3)^(p/3) + c^p)^(1/p), of what is not negative and p of at least 1: c hides behind a
/// and b the better, the greater p. At 3 cube_root_sum().
[[nodiscard]] inline double overlapped(double a, double b, double c, double p) {
  if (p == 3) return cube_root_sum(a, b, c);
  const double body = cube_root_sum(a, b, 0);
  const double high = std::max(body, c);
  if (high <= 0) return 0;
  return high * std::pow(1 + std::pow(std::min(body, c) / high, p), 1 / p);
}

/// Two limits of one path, which bytes pass one after the other - what blocks draw and what memory
/// gives: the slower sets the pace, and little is lost where they meet. (a^8 + b^8)^(1/8), of what
/// is not negative.
[[nodiscard]] inline double slower_of(double a, double b) {
  const double high = std::max(a, b);
  if (high <= 0) return 0;
  const double ratio = std::min(a, b) / high;
  const double fourth = ratio * ratio * ratio * ratio;
  return high * std::sqrt(std::sqrt(std::sqrt(1 + fourth * fourth)));
}

/// Both roofs together: (compute^3 + memory^3)^(1/3), a soft maximum that charges 26 % where they
/// meet. Guess: exponent 3; fits of it on data gave 2.8 (COST_MODEL.md 2.2), too flat to tell
/// from 3.
[[nodiscard]] inline Seconds combine(const Roofs& roofs) {
  const double c = roofs.compute.in_s();
  const double m = roofs.memory.in_s();
  const double high = c > m ? c : m;
  if (high <= 0) return Seconds(0.0);
  const double ratio = (c > m ? m : c) / high;
  return Seconds(high * std::cbrt(1.0 + ratio * ratio * ratio));
}

/// Share of the SMs that get a block when every element has a thread.
/// Guess: 256 threads per block, the usual choice of elementwise kernels.
[[nodiscard]] inline double share_with_blocks(double elements, int sm_count) {
  return std::clamp(elements / (256.0 * sm_count), 1.0 / sm_count, 1.0);
}

/// Share of a footprint's second use that misses L2: 1 / (1 + (share * l2 / footprint)^2).
[[nodiscard]] inline double miss_share(double footprint_bytes, double l2_bytes, double share) {
  if (footprint_bytes <= 0) return 0.0;
  const double z = share * l2_bytes / footprint_bytes;
  return 1.0 / (1.0 + z * z);
}

}  // namespace tracecast::cost
