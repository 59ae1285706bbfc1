#include "sim/step/accumulation.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

void add(std::vector<TimeShare>& shares, const std::vector<TimeShare>& others, double times) {
  for (const TimeShare& other : others) {
    const auto same = std::find_if(shares.begin(), shares.end(), [&](const TimeShare& share) {
      return share.name == other.name;
    });
    if (same == shares.end()) {
      shares.push_back({other.name, other.time * times});
    } else {
      same->time += other.time * times;
    }
  }
}

void add(std::vector<Cost>& costs, const std::vector<Cost>& others, double times) {
  for (const Cost& other : others) {
    const auto same = std::find_if(costs.begin(), costs.end(), [&](const Cost& cost) {
      return cost.layer == other.layer && cost.cause == other.cause;
    });
    if (same == costs.end()) {
      costs.push_back({other.layer, other.cause, other.time * times});
    } else {
      same->time += other.time * times;
    }
  }
}

void sort_greatest_first(auto first, auto last) {
  std::stable_sort(first, last, [](const auto& a, const auto& b) { return b.time < a.time; });
}

void add(StepTimeline& timeline, const StepTimeline& other, double times) {
  timeline.step_time += other.step_time * times;
  timeline.host_busy += other.host_busy * times;
  timeline.copy_busy += other.copy_busy * times;
  timeline.loader_busy += other.loader_busy * times;
  timeline.kernel_busy += other.kernel_busy * times;
  timeline.idle_host += other.idle_host * times;
  timeline.idle_input += other.idle_input * times;
  timeline.critical_kernels += other.critical_kernels * times;
  timeline.critical_host += other.critical_host * times;
  timeline.critical_input += other.critical_input * times;
}

}  // namespace

Prediction predict_accumulated(const PredictRequest& request, const NetworkGraph& micro_batch,
                               std::int64_t micro_batches) {
  TRACECAST_CHECK(micro_batches >= 2, "several micro-batches share an update");
  constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  PredictRequest last = request;
  last.num_causes = kAll;
  Prediction p = predict_step(last);
  const Prediction m = predict_step({.graph = micro_batch,
                                     .gpu = request.gpu,
                                     .cost = request.cost,
                                     .framework = request.framework,
                                     .precision = request.precision,
                                     .keeps_gradients = request.keeps_gradients,
                                     .input_from_host = request.input_from_host,
                                     .input = request.input,
                                     .num_causes = kAll,
                                     .power_limit = request.power_limit,
                                     .cpu = request.cpu});
  const double times = static_cast<double>(micro_batches - 1);
  const Seconds step = p.timeline.step_time + m.timeline.step_time * times;
  const double early = m.timeline.step_time * times / step;  // share of the time before the last
  const auto mean = [&](auto of_last, auto of_early) {
    return of_last * (1 - early) + of_early * early;
  };

  p.log_sd = mean(p.log_sd, m.log_sd);  // the same formulas err in both
  p.step_time_s =
      interval90_with_added(interval90(step.in_s(), p.log_sd), request.framework.host.added);
  const double samples = static_cast<double>(request.graph.batch * micro_batches);
  p.throughput_samples_per_s = {.value = samples / p.step_time_s.value,
                                .low = samples / p.step_time_s.high,
                                .high = samples / p.step_time_s.low};
  p.gpu_utilization = {.min = std::min(p.gpu_utilization.min, m.gpu_utilization.min),
                       .avg = mean(p.gpu_utilization.avg, m.gpu_utilization.avg),
                       .max = std::max(p.gpu_utilization.max, m.gpu_utilization.max)};
  p.sm_efficiency = mean(p.sm_efficiency, m.sm_efficiency);
  p.cpu_utilization = mean(p.cpu_utilization, m.cpu_utilization);
  p.power.min = min(p.power.min, m.power.min);
  p.power.avg = mean(p.power.avg, m.power.avg);
  p.power.max = max(p.power.max, m.power.max);
  p.power.demand = mean(p.power.demand, m.power.demand);
  p.power.clock = mean(p.power.clock, m.power.clock);
  p.power.throttles = (p.power.throttles || m.power.throttles) && p.power.demand >= p.power.limit;
  p.power.holds_limit &= m.power.holds_limit;
  p.energy_per_sample = p.power.avg * step / samples;
  if (early > 0.5) p.bottleneck = m.bottleneck;

  add(p.timeline, m.timeline, times);
  add(p.by_class, m.by_class, times);
  add(p.convolutions, m.convolutions, times);
  add(p.by_basis, m.by_basis, times);
  add(p.greatest, m.greatest, times);
  sort_greatest_first(p.convolutions.begin(), p.convolutions.end());
  sort_greatest_first(p.greatest.begin(), p.greatest.end());
  const auto idle = std::find_if(p.by_class.begin(), p.by_class.end(),
                                 [](const TimeShare& share) { return share.name == "idle"; });
  sort_greatest_first(p.by_class.begin(), idle);  // stays last
  if (p.greatest.size() > request.num_causes) p.greatest.resize(request.num_causes);
  p.num_kernels += m.num_kernels * static_cast<std::size_t>(micro_batches - 1);
  p.num_guessed_kernels += m.num_guessed_kernels * static_cast<std::size_t>(micro_batches - 1);
  p.guessed_time += m.guessed_time * times;
  return p;
}

}  // namespace tracecast
