#pragma once
#include <optional>
#include <string>

#include "calibrate/device/device.hpp"
#include "sim/base/units.hpp"

namespace tracecast::calibrate {

/// How long an experiment is repeated and what spoils it.
struct SamplingRules {
  int first_repetitions = 5;  ///< right after one warm-up: the burst figure, and how long one takes
  int least_repetitions = 10, most_repetitions = 400;
  double target_error = 0.01;      ///< of the median; see robust_median.hpp
  Seconds busy = Seconds(0.02);    ///< timed repetitions fill at least this
  Seconds most_time = Seconds(1);  ///< of timed repetitions of one attempt
  Seconds sustain = Seconds(1);    ///< load before the timed part of a sustained experiment
  Seconds pause = Seconds(0.3);    ///< before it, so that its burst shows
  int attempts = 3;                ///< of a throttled experiment before it is rejected
  Seconds cool_down = Seconds(2);  ///< after a throttled attempt; twice as long after the second
  double slow_clock = 0.9;  ///< share of the usual SM clock below which a sample is throttled
};

enum class TimedOutcome {
  Accepted,
  Rejected,     ///< throttled in every attempt: not a figure to fit
  Unsupported,  ///< see `reason`
};
/// What is known of one experiment when it is done.
struct TimedExperiment {
  std::string experiment;  ///< describe(experiment)
  TimedOutcome outcome = TimedOutcome::Accepted;
  std::string reason;  ///< why it is unsupported or rejected
  Seconds time{};      ///< median, sustained
  Seconds burst{};     ///< median of the first repetitions
  double relative_error = 0;
  int repetitions = 0, outliers = 0, attempts = 1;
  TimingMethod method = TimingMethod::Kernels;
  SensorSample
      sensors;  ///< at the end of the timed part, under load; throttle reasons of all samples
  std::string kernel_name;
  int kernels = 0;
  Bytes workspace{};
  Seconds spent{};  ///< of the device's time, all attempts
};

/// Times one experiment:
///   1. one warm-up and `first_repetitions`; their median is the burst figure (after `pause` when
///   `sustained`);
///   2. `sustained`: load for `sustain`; then repetitions until both `busy` and `target_error` are
///   reached, or
///      `most_repetitions` or `most_time`;
///   3. spoiled (ThrottleReasons::spoils in any sample, or an SM clock under load below slow_clock
///   * usual_clock without the
///      board's power cap as the reason): cool down, or warm up longer where only the clock was
///      low, and again.
/// A power cap does not spoil: what the board sustains under it is what we want to know.
[[nodiscard]] TimedExperiment measure(Device& device, const Experiment& experiment, bool sustained,
                                      const SamplingRules& rules, std::optional<Hertz> usual_clock);

}  // namespace tracecast::calibrate
