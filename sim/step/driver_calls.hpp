#pragma once
#include <cstddef>
#include <span>

#include "sim/step/prediction.hpp"

namespace tracecast {

/// Memory that one GPU's allocator takes from the driver and gives back: calls of cudaMalloc and
/// cudaFree.
struct DriverCalls {
  std::size_t first_mallocs = 0,
              first_frees = 0;  ///< of the first step, what lives for ever included
  std::size_t second_mallocs = 0, second_frees = 0;  ///< of the second
  std::size_t later_mallocs = 0, later_frees = 0;    ///< of each one after it
};

/// Steps in a row on the framework's caching allocator (plan_memory): the first one tries
/// algorithms where the library measures them, and keeps no cache through it. Without a cache,
/// every step is like the first. Pure.
[[nodiscard]] DriverCalls count_driver_calls(const NetworkGraph& graph,
                                             std::span<const Bytes> workspaces,
                                             const FrameworkProfile& framework, const GpuSpec& gpu,
                                             const CostProfile& profile,
                                             const MemoryOptions& options);
/// The same for a step with the algorithms that were chosen for it.
[[nodiscard]] DriverCalls count_driver_calls(const PredictRequest& request,
                                             const PricedStep& priced);

}  // namespace tracecast
