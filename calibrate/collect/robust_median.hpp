#pragma once
#include <span>

#include "sim/base/units.hpp"

namespace tracecast::calibrate {

/// The middle of repeated timings, and how well it is known.
struct RobustMedian {
  Seconds median{};
  /// Standard error of the median over the median, from the order statistics around it, whatever
  /// the distribution:
  ///   (x[ceil(c + r)] - x[floor(c - r)]) / 2 / median,  c = (n - 1) / 2, r = sqrt(n) / 2
  /// The number of values below the true median is binomial(n, 1/2), whose standard deviation is r.
  /// Two modes, as of a clock that steps, show in it; a few outliers do not. Infinite for fewer
  /// than 3 values. Source: David and Nagaraja, Order Statistics, section 7.1 (distribution-free
  /// confidence intervals for quantiles).
  double relative_error = 0;
  int outliers = 0;  ///< values further from the median than 4 interquartile ranges and 2 % of it
};
/// Needs at least one value.
[[nodiscard]] RobustMedian robust_median(std::span<const Seconds> values);

}  // namespace tracecast::calibrate
