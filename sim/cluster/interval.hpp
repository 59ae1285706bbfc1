#pragma once
#include <span>

#include "models/kernel.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Part of a step whose errors go together.
struct ErrorShare {
  KernelClass kernel_class{};
  Seconds time{};     ///< of one kernel, as far as it is on the step's critical path
  double log_sd = 0;  ///< standard deviation of ln(measured / predicted) for that kernel
};

/// Standard deviation of ln(measured / predicted) of a step.
///   sd^2 = sum over classes c of (sum over kernels i of c of time_i * log_sd_i / step)^2
///        + (host * host_log_sd / step)^2 + system_log_sd^2
/// Kernels of one class share one formula and its parameters, so their errors add up fully; classes
/// are taken as independent. `host` is the host's part of the critical path.
/// `system_log_sd` is what no kernel explains: clocks, drivers, library versions, other machines.
/// The formula is the first-order propagation of relative errors; exact while sd is small.
[[nodiscard]] double step_log_sd(std::span<const ErrorShare> kernels, Seconds step, Seconds host,
                                 double host_log_sd, double system_log_sd);

/// A value with its 90 % interval.
struct Interval {
  double value = 0, low = 0, high = 0;
};

/// The central 90 % of a log-normal error around `value`: low = value * exp(-1.645 sd), high =
/// value * exp(+1.645 sd).
[[nodiscard]] Interval interval90(double value, double log_sd);

/// The central 90 % of the slower of two independent log-normal times around their values, in
/// proportion to `value`: t with P(a <= t) P(b <= t) = 0.05 and 0.95, times value / max(a, b). For a
/// step that waits for whichever is later, kernels or input. `a` and `b` at least 0, not both 0.
[[nodiscard]] Interval interval90_of_slower(double value, double a, double a_log_sd, double b,
                                            double b_log_sd);

}  // namespace tracecast
