#include "calibrate/collect/collector.hpp"

#include <algorithm>

#include "calibrate/collect/scheduler.hpp"

namespace tracecast::calibrate {
namespace {

/// Samples from which on the usual clock is known.
constexpr std::size_t kClockSamples = 8;

/// The SM clock under load of what was accepted so far: the middle one. Without power cap, since a
/// capped board's clock goes with the kernel.
class UsualClock {
 public:
  void record(const TimedExperiment& m) {
    if (m.outcome != TimedOutcome::Accepted || !m.sensors.sm_clock) return;
    if (m.sensors.throttle.power_cap) return;
    const auto at = std::lower_bound(clocks_.begin(), clocks_.end(), *m.sensors.sm_clock);
    clocks_.insert(at, *m.sensors.sm_clock);
  }
  [[nodiscard]] std::optional<Hertz> value() const {
    if (clocks_.size() < kClockSamples) return std::nullopt;
    return clocks_[clocks_.size() / 2];
  }

 private:
  std::vector<Hertz> clocks_;  ///< sorted
};

}  // namespace

SamplingRules rules_for(PlanSize size) {
  SamplingRules rules;
  if (size == PlanSize::Quick) {
    rules.most_time = Seconds(0.25);
    rules.sustain = Seconds(0.5);
    rules.cool_down = Seconds(1);
    rules.most_repetitions = 200;
  }
  return rules;
}

CollectCounts count(const Plan& plan, const Journal& journal) {
  CollectCounts counts;
  counts.planned = plan.experiments.size();
  for (const PlannedExperiment& planned : plan.experiments) {
    const auto at = journal.measurements().find(describe(planned.experiment));
    if (at == journal.measurements().end()) continue;
    const TimedExperiment& m = at->second;
    ++counts.done;
    const bool is_accepted = m.outcome == TimedOutcome::Accepted;
    counts.accepted += is_accepted;
    counts.rejected += m.outcome == TimedOutcome::Rejected;
    counts.unsupported += m.outcome == TimedOutcome::Unsupported;
    counts.repeated += m.attempts > 1;
    counts.power_capped += is_accepted && m.sensors.throttle.power_cap;
    counts.outliers += static_cast<std::size_t>(m.outliers);
    counts.repetitions += static_cast<std::size_t>(m.repetitions);
    const ExperimentClass kind = class_of(planned.experiment);
    const bool has_kernels = kind != ExperimentClass::Copy && kind != ExperimentClass::Launch &&
                             kind != ExperimentClass::Recurrent &&
                             kind != ExperimentClass::AllReduce;
    counts.by_events += is_accepted && has_kernels && m.method == TimingMethod::Events;
  }
  return counts;
}

CollectResult collect(Device& device, const Plan& plan, const GpuSpec& gpu,
                      const CostProfile& profile, Journal& journal, const CollectOptions& options) {
  const Seconds start = device.elapsed();
  Scheduler scheduler(plan, gpu, profile);
  UsualClock usual_clock;
  for (std::size_t i = 0; i < plan.experiments.size(); ++i) {
    const auto at = journal.measurements().find(describe(plan.experiments[i].experiment));
    if (at == journal.measurements().end()) continue;
    scheduler.record(i, at->second);
    usual_clock.record(at->second);
  }

  CollectResult result;
  Seconds longest = Seconds(0.5);  // of an experiment so far: what must fit before one is begun
  const auto finish = [&](CollectEnd end) {
    result.end = end;
    result.elapsed = device.elapsed() - start;
    return result;
  };
  while (const auto index = scheduler.next()) {
    if (options.should_stop && options.should_stop()) return finish(CollectEnd::Interrupted);
    if (options.budget && device.elapsed() - start + longest > *options.budget) {
      return finish(CollectEnd::Budget);
    }
    const PlannedExperiment& planned = plan.experiments[*index];
    TimedExperiment measurement;
    try {
      measurement = measure(device, planned.experiment, planned.sustained, options.rules,
                            usual_clock.value());
    } catch (const DeviceLost& loss) {
      result.loss = describe(planned.experiment) + ": " + loss.what();
      return finish(CollectEnd::DeviceLost);
    }
    journal.append(measurement);
    scheduler.record(*index, measurement);
    usual_clock.record(measurement);
    ++result.measured;
    longest = std::max(longest, std::min(measurement.spent, Seconds(10)));
    if (options.on_progress) {
      options.on_progress({.done = scheduler.done(),
                           .planned = plan.experiments.size(),
                           .elapsed = device.elapsed() - start,
                           .last = &measurement});
    }
  }
  return finish(CollectEnd::Complete);
}

}  // namespace tracecast::calibrate
