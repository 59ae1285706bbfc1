#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "models/timeline.hpp"
#include "sim/parallel/data_parallel.hpp"

namespace tracecast {

/// What ran when in a data-parallel step, for trace viewers: a process for every rank with its
/// compute stream, a stream for the communication of gradients where collectives of kernels do it,
/// a track for what goes over links otherwise, and a track of steps. A rank's slices are the
/// stretches of its step between gradients getting ready and weights being needed, which is what is
/// simulated when ranks meet; single kernels are in the timeline of one GPU (step_timeline).
/// `kind_of`: of each rank. `gpu`: name of the devices; empty where they differ.
[[nodiscard]] Timeline many_gpus_timeline(const DataParallelStep& step,
                                          std::span<const std::uint32_t> kind_of,
                                          const std::string& gpu);

}  // namespace tracecast
