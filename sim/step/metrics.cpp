#include "sim/step/metrics.hpp"

#include <algorithm>
#include <array>

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

/// `visit(kernel, estimate, time)` for every kernel of the program, in order, with the time it ran.
template <class Visit>
void for_each_span(const PricedStep& priced, const StepProgram& program,
                   const StepTimeline& timeline, Visit visit) {
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    const ProgramKernel& issued = program.kernels[i];
    const cost::PricedCandidate& choice = priced.choices[issued.op];
    visit(choice.candidate->kernels[issued.kernel], choice.estimates[issued.kernel],
          timeline.kernels[i].end - timeline.kernels[i].start);
  }
}

void sort_by_time(std::vector<TimeShare>& shares) {
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimeShare& a, const TimeShare& b) { return b.time < a.time; });
}

}  // namespace

Range gpu_utilization(const StepTimeline& timeline, const GpuSpec& gpu) {
  const std::vector<double> busy(timeline.kernels.size(), 1.0);
  Range range =
      windows_of(timeline, busy, Seconds(gpu.has_utilization_window_1s ? 1.0 : 1.0 / 6.0)).range();
  range.max = std::min(range.max, 1.0);
  range.avg = std::min(range.avg, 1.0);
  range.min = std::min(range.min, 1.0);
  return range;
}

double sm_efficiency(const PricedStep& priced, Seconds step_time, const GpuSpec& gpu,
                     const CostProfile& profile) {
  // Boards that run above their rated boost do more than the peaks of their specs say.
  const double above = std::max(1.0, cost::free_clock(gpu, profile) / gpu.boost_clock);
  Seconds at_peak{};
  for_each_kernel(priced, [&](const Kernel& kernel, const cost::KernelEstimate&) {
    at_peak += kernel.flops / peak_of(kernel, gpu);
  });
  return step_time > Seconds(0) ? at_peak / step_time / above : 0.0;
}

PowerRange board_power(const PricedStep& priced, const LimitedStep& limited,
                       const CostProfile& profile) {
  bool is_guess = false;
  for_each_kernel(priced, [&](const Kernel& kernel, const cost::KernelEstimate&) {
    is_guess |= kernel.unit == MathUnit::TensorCore;
  });
  return {.idle = limited.gpu.idle_power,
          .min = limited.least,
          .avg = limited.average,
          .max = limited.greatest,
          .active_idle = waiting_power(limited.gpu, profile),
          .limit = limited.gpu.tdp,
          .demand = limited.demand,
          .clock = limited.clock,
          .lowest_clock = limited.lowest_clock,
          .throttles = limited.throttles && limited.demand >= limited.gpu.tdp,
          .holds_limit = limited.holds_limit,
          .is_guess = is_guess};
}

std::vector<TimeShare> time_by_class(const PricedStep& priced, const StepProgram& program,
                                     const StepTimeline& timeline) {
  std::array<Seconds, kKernelClassCount> by_class{};
  for_each_span(priced, program, timeline,
                [&](const Kernel& kernel, const cost::KernelEstimate&, Seconds time) {
                  by_class[static_cast<std::size_t>(kernel.kernel_class)] += time;
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

std::vector<TimeShare> convolution_time_by_algorithm(const PricedStep& priced,
                                                     const StepProgram& program,
                                                     const StepTimeline& timeline) {
  std::array<Seconds, kAlgorithmCount> by_algorithm{};
  for_each_span(priced, program, timeline,
                [&](const Kernel& kernel, const cost::KernelEstimate&, Seconds time) {
                  if (kernel.kernel_class == KernelClass::Convolution) {
                    by_algorithm[static_cast<std::size_t>(kernel.algorithm)] += time;
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

std::vector<TimeShare> time_by_basis(const PricedStep& priced, const StepProgram& program,
                                     const StepTimeline& timeline) {
  constexpr cost::Basis kAll[] = {cost::Basis::Measured, cost::Basis::Transferred,
                                  cost::Basis::Spec, cost::Basis::Unknown};
  std::array<Seconds, 4> by_basis{};
  for_each_span(priced, program, timeline,
                [&](const Kernel&, const cost::KernelEstimate& estimate, Seconds time) {
                  by_basis[static_cast<std::size_t>(estimate.basis)] += time;
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

void move_to_guessed(std::vector<TimeShare>& by_basis, Seconds guessed) {
  for (TimeShare& share : by_basis) {
    if (share.name != cost::to_string(cost::Basis::Transferred)) continue;
    guessed = min(guessed, share.time);
    if (!(guessed > Seconds(0))) return;
    share.time -= guessed;
    by_basis.push_back({kGuessedBasis, guessed});
    std::erase_if(by_basis, [](const TimeShare& s) { return !(s.time > Seconds(0)); });
    return;
  }
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
  // Kernels off the critical path (they overlap the host's work) count only as far as they are on
  // it.
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
                                 const StepProgram& program, const StepTimeline& timeline,
                                 std::size_t count) {
  std::vector<Seconds> by_layer(graph.ops().size());
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    const OpId id = priced.lowered->ops[program.kernels[i].op].op;
    by_layer[graph.op(id).forward.value_or(id).index] +=
        timeline.kernels[i].end - timeline.kernels[i].start;
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
