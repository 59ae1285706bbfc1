#pragma once
#include <span>

#include "hwspecs/software/program_hosts.hpp"
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

/// The central 90 % of base * e^(sd z) + x around `value`: a step whose program adds a host time of
/// its own. base: what is left of `value` without the median of x; sd: of `base`, from `interval`,
/// which holds no x.
///   P(t) = sum of w_i Phi(ln((t - x_i) / base) / sd) over x_i < t
[[nodiscard]] Interval interval90_with_added(const Interval& interval, const AddedHost& added);

/// A run of the same program that was timed, on any GPU and at any batch.
struct TimedStep {
  Interval bare;        ///< its step as predicted without what the program adds
  double measured = 0;  ///< s
  double log_sd = 0;    ///< of the measurement
};
/// What is known of a step after runs of its program were timed: `bare` e^(sd u) + x, all runs
/// having the same x (of one host; another machine's may differ), drawn from `added`, and errors u
/// that hang together:
///   u = sqrt(rho) k + sqrt(1 - rho) own,  k of the program, rho = 0.7 (guess: fitted shares of
///   sim/plan/purchase are alike)
/// Each x_i is as likely as the runs make it; the result is the mixture's median and central 90 %.
/// `sd` of an interval: ln(high / low) / (2 * 1.645).
[[nodiscard]] Interval interval90_given(const Interval& bare, const AddedHost& added,
                                        std::span<const TimedStep> runs);
/// `interval` of a step without the median of what its program adds: the same relative width.
[[nodiscard]] Interval without_added(const Interval& interval, const AddedHost& added,
                                     double log_sd);

}  // namespace tracecast
