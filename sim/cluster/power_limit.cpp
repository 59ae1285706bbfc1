#include "sim/cluster/power_limit.hpp"

#include <algorithm>

#include "sim/cost/price.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast {
namespace {

/// The step at the clocks of `gpu`, with the algorithms it has.
void run_at(const GpuSpec& gpu, PricedStep& priced, StepProgram& program, StepTimeline& timeline,
            const CostProfile& profile, const RunStep& run) {
  for (cost::PricedCandidate& choice : priced.choices) {
    choice.duration = Seconds();
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      choice.estimates[k] = cost::estimate(choice.candidate->kernels[k], gpu, profile);
      choice.duration += choice.estimates[k].duration;
    }
  }
  for (ProgramKernel& kernel : program.kernels) {
    kernel.duration = priced.choices[kernel.op].estimates[kernel.kernel].duration;
  }
  timeline = run(program);
}

Watts total_power(const PowerCauses& causes, const GpuSpec& gpu, const CostProfile& profile) {
  return awake_power(gpu, profile) + active_power(causes, gpu, profile);
}

Watts average_power(const PricedStep& priced, const StepTimeline& timeline, const GpuSpec& gpu,
                    const CostProfile& profile) {
  return total_power(average_causes(priced, timeline, gpu, profile), gpu, profile);
}

/// Mean clock of the kernels, by time; the free clock when there are none.
Hertz mean_clock(const PricedStep& priced, const GpuSpec& gpu, const CostProfile& profile) {
  double cycles = 0, time = 0;
  for (const cost::PricedCandidate& choice : priced.choices) {
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      const double t = choice.estimates[k].duration.in_s();
      cycles += t * cost::sustain(gpu, kernel.math, kernel.unit, profile).clock.in_si();
      time += t;
    }
  }
  return time > 0 ? Hertz(cycles / time) : cost::free_clock(gpu, profile);
}

}  // namespace

LimitedStep hold_power_limit(PricedStep& priced, StepProgram& program, StepTimeline& timeline,
                             const GpuSpec& gpu, Watts limit, const CostProfile& profile,
                             const RunStep& run) {
  const Watts own_limit = gpu.tdp;
  const PowerCauses causes = average_causes(priced, timeline, gpu, profile);
  const Watts before = total_power(causes, gpu, profile);
  const Hertz top = gpu.set_clock > Hertz(0) ? gpu.set_clock : cost::free_clock(gpu, profile);

  LimitedStep result;
  result.gpu = gpu;
  result.gpu.tdp = limit;
  result.demand_causes = causes;
  const Hertz own_clock = mean_clock(priced, gpu, profile);
  constexpr double kLowered = 0.98;
  if (own_clock < top * kLowered) {
    GpuSpec unlimited = gpu;
    unlimited.tdp = Watts(1e9);
    StepTimeline without = timeline;
    run_at(unlimited, priced, program, without, profile, run);
    result.demand_causes = average_causes(priced, without, unlimited, profile);
    run_at(gpu, priced, program, timeline, profile, run);
  }
  result.demand = total_power(result.demand_causes, gpu, profile);
  result.average = limited_power(result.demand, limit);
  const Watts own_average = limited_power(result.demand, own_limit);

  if (limit > own_limit) {
    run_at(result.gpu, priced, program, timeline, profile, run);
  } else if (result.average < own_average * 0.999) {
    // Power rises with the clock, so halving the interval finds it; 8 steps leave 0.3 % of the clock.
    const Watts target = before * (result.average / own_average);
    double low = profile.power.min_clock, high = 1;
    GpuSpec lowered = gpu;
    Watts reached{};
    for (int i = 0; i < 8; ++i) {
      const double share = 0.5 * (low + high);
      lowered.set_clock = top * share;
      run_at(lowered, priced, program, timeline, profile, run);
      reached = average_power(priced, timeline, lowered, profile);
      (reached > target ? high : low) = share;
    }
    const bool at_lowest_clock = low == profile.power.min_clock;
    if (at_lowest_clock) result.average = reached * (own_average / before);
    result.gpu.set_clock = lowered.set_clock;
    result.gpu.tdp = own_limit;
  }
  result.clock = mean_clock(priced, result.gpu, profile);
  result.gpu.tdp = limit;
  result.throttles = result.clock < top * kLowered;
  return result;
}

}  // namespace tracecast
