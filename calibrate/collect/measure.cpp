#include "calibrate/collect/measure.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "calibrate/collect/robust_median.hpp"

namespace tracecast::calibrate {
namespace {

void merge(ThrottleReasons& into, const ThrottleReasons& more) {
  into.power_cap = into.power_cap || more.power_cap;
  into.thermal = into.thermal || more.thermal;
  into.power_brake = into.power_brake || more.power_brake;
  into.other_slowdown = into.other_slowdown || more.other_slowdown;
}

/// How often `time` fits into `span`, within [low, high].
int repetitions_in(Seconds span, Seconds time, int low, int high) {
  if (!(time > Seconds(0))) return high;
  const double count = std::ceil(span / time);
  return static_cast<int>(std::clamp(count, static_cast<double>(low), static_cast<double>(high)));
}

/// One attempt at an experiment: its runs, merged.
class Attempt {
 public:
  Attempt(Device& device, const Experiment& experiment, const SamplingRules& rules)
      : device_(device), experiment_(experiment), rules_(rules) {}

  /// False: the experiment is unsupported; see `why`.
  bool burst(int warm_up) {
    if (!add_run(warm_up, rules_.first_repetitions)) return false;
    burst_ = robust_median(durations_).median;
    return true;
  }
  bool steady(Seconds load) {
    const int warm_up = load > Seconds(0) ? repetitions_in(load, burst_, 1, 1'000'000) : 0;
    durations_.clear();
    int count =
        repetitions_in(rules_.busy, burst_, rules_.least_repetitions, rules_.most_repetitions);
    count = std::min(count, repetitions_in(rules_.most_time, burst_, 3, count));
    if (!add_run(warm_up, count)) return false;
    while (!is_settled()) {
      const int left = rules_.most_repetitions - static_cast<int>(durations_.size());
      if (!add_run(0, std::min(left, static_cast<int>(durations_.size())))) return false;
    }
    return true;
  }
  /// Any sample of it shows a throttled GPU.
  [[nodiscard]] bool is_spoiled(std::optional<Hertz> usual_clock) const {
    return throttle_.spoils() || is_slow(usual_clock);
  }
  /// The clock was low, and nothing says why.
  [[nodiscard]] bool is_slow(std::optional<Hertz> usual_clock) const {
    return usual_clock && slowest_ && !throttle_.power_cap && !throttle_.spoils() &&
           *slowest_ < *usual_clock * rules_.slow_clock;
  }
  void write(TimedExperiment& m) const {
    const RobustMedian median = robust_median(durations_);
    m.time = median.median;
    m.burst = burst_;
    m.relative_error = median.relative_error;
    m.repetitions = static_cast<int>(durations_.size());
    m.outliers = median.outliers;
    m.method = last_.method;
    m.sensors = last_.after;
    m.sensors.throttle = throttle_;
    m.kernel_name = last_.kernel_name;
    m.kernels = last_.kernels;
    m.workspace = last_.workspace;
  }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  bool add_run(int warm_up, int count) {
    RunResult result = device_.run(experiment_, warm_up, count);
    if (auto* unsupported = std::get_if<Unsupported>(&result)) {
      why_ = std::move(unsupported->reason);
      return false;
    }
    last_ = std::move(std::get<DeviceRun>(result));
    durations_.insert(durations_.end(), last_.durations.begin(), last_.durations.end());
    merge(throttle_, last_.before.throttle);
    merge(throttle_, last_.after.throttle);
    if (last_.after.sm_clock && (!slowest_ || *last_.after.sm_clock < *slowest_)) {
      slowest_ = last_.after.sm_clock;
    }
    return true;
  }
  [[nodiscard]] bool is_settled() const {
    if (static_cast<int>(durations_.size()) >= rules_.most_repetitions) return true;
    Seconds spent{};
    for (const Seconds duration : durations_) spent += duration;
    return spent >= rules_.most_time ||
           robust_median(durations_).relative_error <= rules_.target_error;
  }

  Device& device_;
  const Experiment& experiment_;
  const SamplingRules& rules_;
  std::vector<Seconds> durations_;
  ThrottleReasons throttle_;
  std::optional<Hertz> slowest_;  ///< under load
  DeviceRun last_;
  Seconds burst_{};
  std::string why_;
};

}  // namespace

TimedExperiment measure(Device& device, const Experiment& experiment, bool sustained,
                        const SamplingRules& rules, std::optional<Hertz> usual_clock) {
  const Seconds start = device.elapsed();
  TimedExperiment m;
  m.experiment = describe(experiment);
  bool warm_longer = false;
  for (m.attempts = 1;; ++m.attempts) {
    if (sustained) device.rest(rules.pause);
    Attempt attempt(device, experiment, rules);
    const Seconds load = sustained ? rules.sustain : warm_longer ? rules.busy * 10.0 : Seconds(0);
    if (!attempt.burst(1) || !attempt.steady(load)) {
      m.outcome = TimedOutcome::Unsupported;
      m.reason = attempt.why();
      break;
    }
    attempt.write(m);
    if (!attempt.is_spoiled(usual_clock)) break;
    if (m.attempts == rules.attempts) {
      m.outcome = TimedOutcome::Rejected;
      m.reason = attempt.is_slow(usual_clock)
                     ? "SM clock low in every attempt"
                     : "throttled in every attempt: " + m.sensors.throttle.text();
      break;
    }
    warm_longer = attempt.is_slow(usual_clock);
    if (!warm_longer) device.rest(rules.cool_down * static_cast<double>(m.attempts));
  }
  m.spent = device.elapsed() - start;
  return m;
}

}  // namespace tracecast::calibrate
