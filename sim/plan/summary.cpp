#include "sim/plan/summary.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

double in_s(Time time) { return time.in_seconds().in_s(); }

double median(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

void add_uses(const Fleet& fleet, const Schedule& schedule, Summary& summary) {
  const double span = summary.makespan.in_s();
  double busy = 0, joules = 0, usd = 0;
  bool has_power = true, has_price = true;
  for (std::size_t t = 0; t < fleet.types.size(); ++t) {
    const GpuType& type = fleet.types[t];
    const double used = schedule.busy_gpu_s[t], whole = span * type.gpus;
    summary.types.push_back({type.id, type.gpus, used, whole > 0 ? used / whole : 0});
    busy += used;
    has_power = has_power && type.busy_power && type.idle_power;
    has_price = has_price && type.usd_per_hour;
    if (type.busy_power && type.idle_power) {
      joules +=
          used * type.busy_power->in_w() + std::max(0.0, whole - used) * type.idle_power->in_w();
    }
    usd += used / 3600 * type.usd_per_hour.value_or(0);
  }
  const double all = span * fleet.total_gpus();
  summary.utilization = all > 0 ? busy / all : 0;
  if (has_power) summary.energy_kwh = joules / 3.6e6;
  if (has_price) summary.cost_usd = usd;
}

}  // namespace

Summary summarize(const JobMix& mix, const Fleet& fleet, const Schedule& schedule,
                  const Rules& rules, const ScheduleOptions& options) {
  Summary summary;
  const std::size_t first = options.measured ? options.measured->first : 0;
  const std::size_t last = options.measured ? options.measured->second : mix.jobs.size() - 1;
  std::vector<double> jct;
  double wait = 0, slow = 0, fair = 0, fair_squared = 0, overhead = 0, end = 0;
  for (std::size_t j = first; j <= last; ++j) {
    const JobHistory& history = schedule.jobs[j];
    TRACECAST_CHECK(history.end.has_value(), "a measured job is done");
    const double took = in_s(*history.end - mix.jobs[j].submit);
    const double alone =
        mix.jobs[j].steps * rules.run_time_factor / mix.best_rate({static_cast<std::uint32_t>(j)});
    jct.push_back(took);
    wait += took - in_s(history.served);
    slow += took / alone;
    summary.max_slowdown = std::max(summary.max_slowdown, took / alone);
    fair += alone / took;
    fair_squared += alone / took * (alone / took);
    overhead += history.overhead.in_s();
    end = std::max(end, in_s(*history.end));
    summary.preemptions += history.preemptions;
    summary.starts += history.starts;
    summary.resizes += history.resizes;
    summary.uncertainty += history.uncertainty;
  }
  const auto n = static_cast<double>(jct.size());
  double sum = 0;
  for (const double value : jct) sum += value;
  std::sort(jct.begin(), jct.end());
  summary.jobs = jct.size();
  summary.mean_jct = Seconds(sum / n);
  summary.median_jct = Seconds(median(jct));
  summary.p99_jct = Seconds(jct[static_cast<std::size_t>(0.99 * n)]);
  summary.makespan = Seconds(end);
  summary.mean_wait = Seconds(wait / n);
  summary.mean_slowdown = slow / n;
  summary.fairness = fair * fair / (n * fair_squared);
  summary.overhead = Seconds(overhead);
  add_uses(fleet, schedule, summary);
  return summary;
}

}  // namespace tracecast::plan
