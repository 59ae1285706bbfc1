#pragma once
#include <string>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "traces/trace.hpp"

namespace tracecast {

/// The spec of the GPU that a trace was recorded on: by its name without the maker's words, else by
/// compute capability and number of SMs, then the nearest memory, then the highest power limit.
/// `note` says so when it is not the name. Throws InputError with --from when nothing is recorded
/// that tells it.
[[nodiscard]] const GpuSpec& recorded_gpu(const traces::Trace& trace, const GpuCatalog& gpus,
                                          std::string& note);

}  // namespace tracecast
