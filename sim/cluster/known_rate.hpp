#pragma once
#include "sim/base/units.hpp"
#include "sim/cluster/colocation.hpp"

namespace tracecast {

/// Share of a step with a kernel running from which on the GPU is what the step waits for.
inline constexpr double kBusyGpu = 0.9;

/// The job with times that make it take `step` when it has the box to itself, for a rate alone that was measured.
/// A prediction is taken to be wrong in what it says steps wait for: kernels, where one runs for kBusyGpu and
/// more, else the host thread and the loader. They take so many times their time, found by bisection and a few
/// corrections; a host that is nothing already leaves the rest to all of them.
/// Needs step > 0. Pure.
[[nodiscard]] ColocatedJob with_rate_alone(ColocatedJob job, const SharedBox& box, Seconds step);

}  // namespace tracecast
