#pragma once
#include "sim/base/units.hpp"
#include "sim/sharing/colocation.hpp"

namespace tracecast {

/// Steps that were measured while a program had a GPU and box to itself.
struct KnownSteps {
  Seconds here{};     ///< on this GPU
  Seconds fastest{};  ///< of the same program and batch on any GPU; `here` where no other is known
};

/// A step beyond so many times the program's fastest is not the host's doing: what a program does
/// there does not depend on the GPU, and hosts differ by no more. Chosen among 2, 2.5 and 3:
/// sim/sharing/notes/0001.
inline constexpr double kHostRange = 2.5;
/// Share of a step with a kernel running from which on the GPU is what a program waits for.
inline constexpr double kBusyGpu = 0.9;

/// The job with times that make its step `known.here` when it has the box to itself.
/// Where it is slower than predicted, the host thread and the loader are, if the step is within
/// kHostRange of the fastest, else the kernels. Where it is faster, what the step was predicted to
/// wait for is: kernels, where one runs for kBusyGpu and more, else host and loader. They take so
/// many times their time, found by bisection and a few corrections; a host that is nothing already
/// leaves the rest to all of them. Needs 0 < known.fastest <= known.here. Pure.
[[nodiscard]] ColocatedJob with_rate_alone(ColocatedJob job, const SharedBox& box,
                                           const KnownSteps& known);

}  // namespace tracecast
