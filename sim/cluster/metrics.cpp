#include "sim/cluster/metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/cluster/power.hpp"

namespace tracecast {
namespace {

FlopsPerSecond peak_of(const Kernel& kernel, const GpuSpec& gpu) {
  return gpu.find_peak(kernel.math, kernel.unit).value_or(gpu.peak_fp32());
}

/// `kernel(kernel, estimate)` for every kernel of the step, in order.
template <class Visit>
void for_each_kernel(const PricedStep& priced, Visit visit) {
  for (const cost::PricedCandidate& choice : priced.choices) {
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      visit(choice.candidate->kernels[k], choice.estimates[k]);
    }
  }
}

void sort_by_time(std::vector<TimeShare>& shares) {
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimeShare& a, const TimeShare& b) { return b.time < a.time; });
}

/// The integral over time of a quantity that is constant inside each kernel and between kernels,
/// repeated with the step's period.
class PeriodicIntegral {
 public:
  PeriodicIntegral(const StepTimeline& timeline, std::span<const double> inside, double between)
      : period_(timeline.step_time.in_s()) {
    double end = 0, sum = 0;
    at_.push_back({0, 0});
    for (std::size_t k = 0; k < timeline.kernels.size(); ++k) {
      const double start = std::max(timeline.kernels[k].start.in_s(), end);
      const double stop = std::max(timeline.kernels[k].end.in_s(), start);
      sum += (start - end) * between;
      at_.push_back({start, sum});
      sum += (stop - start) * inside[k];
      at_.push_back({stop, sum});
      end = stop;
    }
    sum += std::max(period_ - end, 0.0) * between;
    at_.push_back({period_, sum});
  }
  /// From 0 to `time`.
  [[nodiscard]] double until(double time) const {
    const double periods = std::floor(time / period_);
    const double rest = time - periods * period_;
    const auto after = std::upper_bound(at_.begin(), at_.end(), rest,
                                        [](double t, const Point& p) { return t < p.time; });
    double value = at_.back().sum;
    if (after != at_.end()) {
      const Point& a = *(after - 1);
      const double width = after->time - a.time;
      value = a.sum + (width > 0 ? (after->sum - a.sum) * (rest - a.time) / width : 0.0);
    }
    return periods * at_.back().sum + value;
  }
  /// Over windows of `width` that follow each other from 0 on.
  [[nodiscard]] Range over_windows(double width) const {
    if (!(period_ > 0)) return {};
    constexpr int kWindows = 64;
    Range range{.min = INFINITY, .avg = at_.back().sum / period_, .max = 0};
    double before = 0;
    for (int w = 1; w <= kWindows; ++w) {
      const double now = until(w * width);
      range.min = std::min(range.min, (now - before) / width);
      range.max = std::max(range.max, (now - before) / width);
      before = now;
    }
    range.min = std::min(range.min, range.avg);
    range.max = std::max(range.max, range.avg);
    return range;
  }

 private:
  struct Point {
    double time, sum;
  };
  double period_;
  std::vector<Point> at_;
};

}  // namespace

Range gpu_utilization(const StepTimeline& timeline, const GpuSpec& gpu) {
  const std::vector<double> busy(timeline.kernels.size(), 1.0);
  Range range = PeriodicIntegral(timeline, busy, 0.0)
                    .over_windows(gpu.has_utilization_window_1s ? 1.0 : 1.0 / 6.0);
  range.max = std::min(range.max, 1.0);
  range.avg = std::min(range.avg, 1.0);
  range.min = std::min(range.min, 1.0);
  return range;
}

double sm_efficiency(const PricedStep& priced, Seconds step_time, const GpuSpec& gpu) {
  Seconds at_peak{};
  for_each_kernel(priced, [&](const Kernel& kernel, const cost::KernelEstimate&) {
    at_peak += kernel.flops / peak_of(kernel, gpu);
  });
  return step_time > Seconds(0) ? at_peak / step_time : 0.0;
}

PowerRange board_power(const PricedStep& priced, const StepProgram& program,
                       const StepTimeline& timeline, const LimitedStep& limited,
                       const CostProfile& profile) {
  constexpr double kSensorWindow = 0.1;
  const double awake_w = awake_power(limited.gpu, profile).in_w();
  bool is_guess = false;
  std::vector<double> active_w;
  active_w.reserve(program.kernels.size());
  for (const ProgramKernel& launched : program.kernels) {
    const cost::PricedCandidate& choice = priced.choices[launched.op];
    const Kernel& kernel = choice.candidate->kernels[launched.kernel];
    is_guess |= kernel.unit == MathUnit::TensorCore;
    double watts = 0;
    if (launched.duration > Seconds(0)) {
      const double sm_share = choice.estimates[launched.kernel].sm_share;
      watts = active_power(power_causes(kernel, launched.duration, sm_share, limited.gpu, profile),
                           limited.gpu, profile)
                  .in_w();
    }
    active_w.push_back(watts);
  }
  const Range active = PeriodicIntegral(timeline, active_w, 0.0).over_windows(kSensorWindow);
  const double avg_w = std::max(limited.average.in_w(), awake_w);
  const double scale = active.avg > 0 ? (avg_w - awake_w) / active.avg : 0.0;
  return {.idle = limited.gpu.idle_power,
          .min = Watts(awake_w + scale * active.min),
          .avg = Watts(avg_w),
          .max = Watts(awake_w + scale * active.max),
          .limit = limited.gpu.tdp,
          .demand = limited.demand,
          .clock = limited.clock,
          .throttles = limited.throttles,
          .is_guess = is_guess};
}

std::vector<TimeShare> time_by_class(const PricedStep& priced, const StepTimeline& timeline) {
  std::array<Seconds, kKernelClassCount> by_class{};
  for_each_kernel(priced, [&](const Kernel& kernel, const cost::KernelEstimate& estimate) {
    by_class[static_cast<std::size_t>(kernel.kernel_class)] += estimate.duration;
  });
  std::vector<TimeShare> shares;
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    if (by_class[c] > Seconds(0)) {
      shares.push_back({to_string(static_cast<KernelClass>(c)), by_class[c]});
    }
  }
  sort_by_time(shares);
  const Seconds idle = timeline.step_time - timeline.kernel_busy;
  if (idle > Seconds(0)) shares.push_back({"idle", idle});
  return shares;
}

std::vector<TimeShare> convolution_time_by_algorithm(const PricedStep& priced) {
  std::array<Seconds, kAlgorithmCount> by_algorithm{};
  for_each_kernel(priced, [&](const Kernel& kernel, const cost::KernelEstimate& estimate) {
    if (kernel.kernel_class == KernelClass::Convolution) {
      by_algorithm[static_cast<std::size_t>(kernel.algorithm)] += estimate.duration;
    }
  });
  std::vector<TimeShare> shares;
  for (std::size_t a = 0; a < by_algorithm.size(); ++a) {
    if (by_algorithm[a] > Seconds(0)) {
      shares.push_back({to_string(static_cast<Algorithm>(a)), by_algorithm[a]});
    }
  }
  sort_by_time(shares);
  return shares;
}

std::vector<TimeShare> time_by_basis(const PricedStep& priced, const StepTimeline& timeline) {
  constexpr cost::Basis kAll[] = {cost::Basis::Measured, cost::Basis::Transferred,
                                  cost::Basis::Spec, cost::Basis::Unknown};
  std::array<Seconds, 4> by_basis{};
  for_each_kernel(priced, [&](const Kernel&, const cost::KernelEstimate& estimate) {
    by_basis[static_cast<std::size_t>(estimate.basis)] += estimate.duration;
  });
  by_basis[static_cast<std::size_t>(cost::Basis::Transferred)] +=
      max(timeline.step_time - timeline.kernel_busy, Seconds(0));
  std::vector<TimeShare> shares;
  for (const cost::Basis basis : kAll) {
    const Seconds time = by_basis[static_cast<std::size_t>(basis)];
    if (time > Seconds(0)) shares.push_back({cost::to_string(basis), time});
  }
  return shares;
}

std::string_view to_string(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::Compute:
      return "compute";
    case Bottleneck::Memory:
      return "memory";
    case Bottleneck::Launch:
      return "launch";
    case Bottleneck::Input:
      return "input";
  }
  return "launch";
}

Bottleneck find_bottleneck(const PricedStep& priced, const StepTimeline& timeline) {
  std::array<Seconds, 4> time{};
  const auto part = [&](Bottleneck b) -> Seconds& { return time[static_cast<std::size_t>(b)]; };
  for_each_kernel(priced, [&](const Kernel&, const cost::KernelEstimate& estimate) {
    part(estimate.bound == cost::Bound::Compute  ? Bottleneck::Compute
         : estimate.bound == cost::Bound::Memory ? Bottleneck::Memory
                                                 : Bottleneck::Launch) += estimate.duration;
  });
  // Kernels off the critical path (they overlap the host's work) count only as far as they are on it.
  Seconds kernels{};
  for (const Seconds t : time) kernels += t;
  if (kernels > Seconds(0)) {
    const double on_path = timeline.critical_kernels / kernels;
    for (Seconds& t : time) t *= on_path;
  }
  part(Bottleneck::Launch) += timeline.critical_host;
  part(Bottleneck::Input) += timeline.critical_input;
  return static_cast<Bottleneck>(std::max_element(time.begin(), time.end()) - time.begin());
}

std::vector<Cost> greatest_costs(const NetworkGraph& graph, const PricedStep& priced,
                                 const StepTimeline& timeline, std::size_t count) {
  std::vector<Seconds> by_layer(graph.ops().size());
  for (std::size_t i = 0; i < priced.choices.size(); ++i) {
    const OpId id = priced.lowered.ops[i].op;
    by_layer[graph.op(id).forward.value_or(id).index] += priced.choices[i].duration;
  }
  std::vector<Cost> costs;
  for (std::uint32_t i = 0; i < by_layer.size(); ++i) {
    if (by_layer[i] > Seconds(0))
      costs.push_back({.layer = OpId{i}, .cause = {}, .time = by_layer[i]});
  }
  if (timeline.idle_host > Seconds(0)) {
    costs.push_back({.layer = {}, .cause = "waiting for the host", .time = timeline.idle_host});
  }
  if (timeline.idle_input > Seconds(0)) {
    costs.push_back({.layer = {}, .cause = "waiting for input", .time = timeline.idle_input});
  }
  std::stable_sort(costs.begin(), costs.end(),
                   [](const Cost& a, const Cost& b) { return b.time < a.time; });
  if (costs.size() > count) costs.resize(count);
  return costs;
}

}  // namespace tracecast
