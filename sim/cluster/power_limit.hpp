#pragma once
#include <functional>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"
#include "sim/cluster/power.hpp"
#include "sim/cluster/step_program.hpp"

namespace tracecast {

/// A step on a board under its power limit.
struct LimitedStep {
  GpuSpec gpu;      ///< with `set_clock` where the limit lowers the clock, and the limit as `tdp`
  Watts average{};  ///< board power, averaged over the step
  Watts demand{};   ///< what it would draw without any limit
  PowerCauses demand_causes{};  ///< of `demand`, over the step
  Hertz clock{};                ///< of the SMs, averaged over the time that kernels run
  bool throttles = false;       ///< the limit lowers the clock of some kernel by more than 2 %
};

/// Runs a program as `simulate` does, with whatever feeds it. The last call is that of the result.
using RunStep = std::function<StepTimeline(const StepProgram&)>;

/// Lets `limit` act on a step that is priced and simulated for `gpu`: prices and simulates it again at a lower clock
/// where that is needed. Algorithms stay: libraries choose them before the board is warm.
///   average = limited_power(demand, limit),   demand: the step's power at the clocks it has without a limit
/// The clocks of the cost profile contain the board's own limit (sim/cost/sustained_clock.hpp), so that limit changes no
/// time. Under a lower one every kernel runs at the one clock for which power falls as the average does:
///   power(clock) / power(own limit's clocks) = limited_power(demand, limit) / limited_power(demand, own limit)
/// but at min_clock of the free clock at least: a limit below that power is exceeded, as boards do.
/// A higher limit gives back what the clocks lost to the own one.
[[nodiscard]] LimitedStep hold_power_limit(PricedStep& priced, StepProgram& program,
                                           StepTimeline& timeline, const GpuSpec& gpu, Watts limit,
                                           const CostProfile& profile, const RunStep& run);

}  // namespace tracecast
