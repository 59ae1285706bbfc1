#pragma once
#include <functional>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"
#include "sim/step/power.hpp"
#include "sim/step/step_program.hpp"
#include "sim/step/windows.hpp"

namespace tracecast {

/// Width of the windows in which a board's limit is held and its power shown.
/// Guess: 0.1 s for both. What boards show is a mean over a window that goes with the GEMM: of A100
/// and H100 a quarter of the time (Yang, Adamek and Armour, "Part-time Power Measurements", 2024,
/// arXiv 2312.02741), from Ampere on (A100 apart) a second (NVML API Reference,
/// nvmlDeviceGetPowerUsage). Over what the driver averages no source says.
inline constexpr Seconds kPowerWindow = Seconds(0.1);

/// What a step draws on a board that is set as a GpuSpec says.
struct StepDraw {
  PowerCauses causes{};  ///< averaged over the step
  Hertz clock{};         ///< of the SMs, averaged over the time that kernels run
  Windows
      active_w{};  ///< over the active-idle power, W; none: every window draws what the step does
  std::vector<double> kernel_w{};  ///< likewise, while each kernel of the program runs, W
};
[[nodiscard]] StepDraw draw_of(const PricedStep& priced, const StepProgram& program,
                               const StepTimeline& timeline, const GpuSpec& gpu,
                               const CostProfile& profile);

/// Prices and runs a step on the board as the GpuSpec sets it: `set_clock` and `tdp` differ from
/// call to call. The last call is that of the result.
using DrawStep = std::function<StepDraw(const GpuSpec&)>;

/// A step on a board under its power limit.
struct LimitedStep {
  GpuSpec gpu;      ///< with `set_clock` where the limit lowers the clock, and the limit as `tdp`
  Watts average{};  ///< board power, averaged over the step
  Watts least{}, greatest{};    ///< over windows
  Watts demand{};               ///< what it would draw without any limit, on average
  PowerCauses demand_causes{};  ///< of `demand`, over the step
  Hertz clock{};                ///< of the SMs, averaged over the time that kernels run
  Hertz lowest_clock{};         ///< that the limit can set
  bool throttles =
      false;  ///< the step asks for more than the limit, which lowers the clock by more than 2 %
  bool holds_limit = true;  ///< false: some window is above the limit at the lowest clock, too
  std::vector<double>
      kernel_w{};  ///< over the active-idle power, of each kernel while it runs; none: not told
};

/// Lets `limit` act on a step that draws `own` at the clocks of `gpu`, and runs it again at a lower
/// clock where that is needed. Algorithms stay: libraries choose them before the board is warm.
///   held    = mean over windows of min(demand in it, limit),
///     demand: the step's power at the clocks it has without a limit
///   average = min(limited_power(demand, limit), held); where prices tell power, held: each
///   kernel's holds the limit already
/// The clocks of the cost profile contain the board's own limit (sim/cost/sustained_clock.hpp), so
/// that limit changes no time, nor does one that no window exceeds. Under a lower one every kernel
/// runs at the one clock for which power falls as what is held does, or, where that is higher, the
/// one at which a step takes as much longer:
///   left = held(limit) / held(own limit),   power(clock) / power(own limit's clocks) = left   or
///   own time / time(clock) = left
/// So half the power costs at most twice the time (measured: 1.14 to 1.67 times at most,
/// notes/0001). A higher limit gives back what the clocks lost to the own one. The driver holds
/// every window at the limit ("the upper boundary for the card's power draw", NVML API Reference,
/// nvmlDeviceGetPowerManagementLimit): windows above it are cut to it, the others draw what that
/// leaves of the average. All it can do is lower the clock of the SMs. A limit that some window
/// exceeds at power.min_clock of the free clock is not held: that window draws what it draws; so
/// does a step whose average exceeds it, at the clock above. Windows that exceed the board's own
/// limit under that limit are our error, and as much is taken off what they draw under others.
/// notes/0001.
/// `most_at_lowest`: what no window can exceed over the active-idle power at the lowest clock;
/// spares most steps that run.
[[nodiscard]] LimitedStep hold_power_limit(const GpuSpec& gpu, Watts limit,
                                           const CostProfile& profile, const StepDraw& own,
                                           const DrawStep& run,
                                           const std::function<Watts()>& most_at_lowest = {});

/// Runs a program as `simulate` does, with whatever feeds it.
using RunStep = std::function<StepTimeline(const StepProgram&)>;

/// The same for a step that is priced and simulated for `gpu`. `last_run_counts`: `run` leaves more
/// behind than it returns, so that the last call has to be that of the result; else what is known
/// already is not run again.
[[nodiscard]] LimitedStep hold_power_limit(PricedStep& priced, StepProgram& program,
                                           StepTimeline& timeline, const GpuSpec& gpu, Watts limit,
                                           const CostProfile& profile, const RunStep& run,
                                           bool last_run_counts = false);

}  // namespace tracecast
