#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/graph.hpp"
#include "sim/step/power_limit.hpp"
#include "sim/step/step_program.hpp"
#include "sim/step/windows.hpp"

namespace tracecast {

/// GPU utilisation as nvidia-smi samples it: share of each window in which at least one kernel ran,
/// the step repeated without end. Window: 1 s up to Pascal, 1/6 s since Volta (nvmlUtilization_t,
/// NVML API reference: "the sample period may be between 1 second and 1/6 second depending on the
/// GEMM").
[[nodiscard]] Range gpu_utilization(const StepTimeline& timeline, const GpuSpec& gpu);

/// Arithmetic done over arithmetic possible: sum of flops / peak(format, unit) over the step time.
/// Counts what kernels execute (after Winograd's saving), at the peak of the boost clock, or of the
/// higher one at which boards without ECC run.
[[nodiscard]] double sm_efficiency(const PricedStep& priced, Seconds step_time, const GpuSpec& gpu,
                                   const CostProfile& profile);

/// Board power over the windows in which the driver holds it and nvidia-smi shows it
/// (sim/step/power_limit.hpp). None of the three is above a limit that holds.
struct PowerRange {
  Watts idle{}, min{}, avg{}, max{};
  Watts active_idle{};      ///< with a context, while no kernel runs
  Watts limit{};            ///< the power limit in force
  Watts demand{};           ///< average that the step would draw without a limit
  Hertz clock{};            ///< of the SMs, averaged over the time that kernels run
  Hertz lowest_clock{};     ///< that a limit can set
  bool throttles = false;   ///< the limit lowers the clock
  bool holds_limit = true;  ///< false: at the lowest clock too some window is above the limit
  bool is_guess = false;    ///< tensor cores take part, whose energy is hardly fitted
};
[[nodiscard]] PowerRange board_power(const PricedStep& priced, const LimitedStep& limited,
                                     const CostProfile& profile);

/// Part of a step's time, by name.
/// Name of the basis of what rests on guesses.
inline constexpr std::string_view kGuessedBasis = "guessed";

struct TimeShare {
  std::string_view name;
  Seconds time{};
};

/// Time by class of the kernel that runs, greatest first, then "idle": none runs. Each moment of
/// the timeline counts once (kernels of a step have one stream), so that it sums to the step time.
/// A kernel that stands for many launches takes as long as the host needs to issue them.
[[nodiscard]] std::vector<TimeShare> time_by_class(const PricedStep& priced,
                                                   const StepProgram& program,
                                                   const StepTimeline& timeline);
/// Convolution time by algorithm, greatest first.
[[nodiscard]] std::vector<TimeShare> convolution_time_by_algorithm(const PricedStep& priced,
                                                                   const StepProgram& program,
                                                                   const StepTimeline& timeline);
/// The same by basis; waiting for the host counts as `Transferred`, since host costs come from
/// other hosts. In the order measured, transferred, spec, unknown; absent ones left out.
/// Of the time that rests on what other hardware shows, so much rests on guesses.
void move_to_guessed(std::vector<TimeShare>& by_basis, Seconds guessed);
[[nodiscard]] std::vector<TimeShare> time_by_basis(const PricedStep& priced,
                                                   const StepProgram& program,
                                                   const StepTimeline& timeline);

/// What a faster step would need most.
enum class Bottleneck {
  Compute,  ///< arithmetic of the kernels
  Memory,   ///< bandwidth of device memory
  Launch,   ///< the host's dispatch, and kernels too small to fill the GPU
  Input,    ///< loading and copying the input
};
[[nodiscard]] std::string_view to_string(Bottleneck bottleneck);
/// The greatest part of the critical path; kernels count by their bound.
[[nodiscard]] Bottleneck find_bottleneck(const PricedStep& priced, const StepTimeline& timeline);

/// A layer or a cause with the time it takes in one step.
struct Cost {
  std::optional<OpId> layer;  ///< forward op, with its backward and update kernels; else a cause
  std::string_view cause;     ///< of what is no layer: "waiting for the host", "waiting for input"
  Seconds time{};
};
/// The `count` greatest, greatest first; equal ones in the graph's order.
[[nodiscard]] std::vector<Cost> greatest_costs(const NetworkGraph& graph, const PricedStep& priced,
                                               const StepProgram& program,
                                               const StepTimeline& timeline, std::size_t count);

}  // namespace tracecast
