#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/job/resolved_job.hpp"
#include "sim/sharing/colocation.hpp"

namespace tracecast {

/// The job as one of those that share a GPU, from its own prediction: programs that train in
/// several processes come as so many. `gpu`: of the box.
[[nodiscard]] ColocatedJob colocated(const ResolvedJob& job, const Prediction& prediction,
                                     std::size_t gpu = 0);

/// What jobs on this GPU and host share. GPUs that preempt kernels (Pascal on) pass from a process
/// without work to the next at once, whatever `idle_hold` says. Host threads: the machine's or
/// `--host-cpu`'s, at most `--cpu-threads` of them; nothing when neither is named and no loader
/// settles it.
[[nodiscard]] SharedBox shared_box(const ResolvedJob& job, const Hardware& hardware, bool mps);

/// Step time of a program that trains in several processes on one GPU; its own prediction is of one
/// alone.
[[nodiscard]] Prediction predict_program(const ResolvedJob& job, const Hardware& hardware);

}  // namespace tracecast
