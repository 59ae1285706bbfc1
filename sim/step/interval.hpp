#pragma once
#include <span>

#include "models/kernel.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// One kernel of a step and how far off its time may be.
struct ErrorShare {
  KernelClass kernel_class{};
  Seconds time{};            ///< of the kernel, as far as it is on the step's critical path
  double log_sd = 0;         ///< standard deviation of ln(measured / predicted) for that kernel
  double shared_log_sd = 0;  ///< of it, what all kernels of its class on this GPU have in common
};

/// Standard deviation of ln(measured / predicted) of a step.
///   sd^2 = sum over classes c of (sum over kernels i of c of time_i * shared_i / step)^2
///        + sum over shapes s of (sum over kernels i of s of time_i * own_i / step)^2
///        + (host * host_log_sd / step)^2 + system_log_sd^2,          own_i^2 = log_sd_i^2 -
///        shared_i^2
/// What the kernels of a class share, a board's factor and a formula's bias, adds up fully; what is
/// a shape's own averages out over the shapes of a network. Kernels of one class and the same time
/// are one shape. Classes are taken as independent. `host` is the host's part of the critical path.
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
/// proportion to `value`: t with P(a <= t) P(b <= t) = 0.05 and 0.95, times value / max(a, b). For
/// a step that waits for whichever is later, kernels or input. `a` and `b` at least 0, not both 0.
[[nodiscard]] Interval interval90_of_slower(double value, double a, double a_log_sd, double b,
                                            double b_log_sd);

}  // namespace tracecast
