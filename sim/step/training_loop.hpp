#pragma once
#include <cstddef>
#include <cstdint>

#include "hwspecs/software/framework_profile.hpp"
#include "hwspecs/software/job_spec.hpp"
#include "sim/base/units.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// What a loop needs to know of the step that it trains.
struct LoopContext {
  std::int64_t batch = 1;
  Bytes weights{};     ///< of the network
  Hertz core_speed{};  ///< of the dispatch thread, in Haswell's cycles a second
};

/// Host time of the loop between two steps, waits included.
///   cycles / core speed + samples * (ops * dispatch + kernels * launch) + waits at the end and
///   within * wake
///   + weight copies * weights / copy rate
/// wake: the framework's `synchronization`, at least kWake.
[[nodiscard]] Seconds time_between_steps(const LoopWork& loop, const FrameworkProfile& framework,
                                         const LoopContext& context);

/// From the end of the last kernel until a value that the host asked for is a number of the
/// program: a copy of a few bytes and the interpreter. Guess.
inline constexpr Seconds kWake = Seconds(30e-6);

/// The framework as this loop drives it: its step overhead with the work between steps, and its
/// waits. A wait before the updates stands for one value per parameter.
[[nodiscard]] FrameworkProfile in_loop(FrameworkProfile framework, const LoopWork& loop,
                                       const LoopContext& context);

/// Takes the loop's own ops out of the program's step overhead and puts them before the step's,
/// with a kernel each of the length of the program's shortest: what neighbours on the GPU see of
/// them. Where results are read back within the forward pass, its first `forward_ops` ops are cut
/// into as many equal parts; before each the host waits for the GPU and does its part of the loop's
/// ops and of its other work. Returns the number of the loop's ops.
std::size_t show_loop_kernels(const LoopWork& loop, const FrameworkProfile& framework,
                              const LoopContext& context, std::size_t forward_ops,
                              StepProgram& program);

}  // namespace tracecast
