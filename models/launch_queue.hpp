#pragma once
#include <cstdint>

namespace tracecast {

/// Launches of one context that may be on their way to the GPU; one more holds the host until the
/// oldest has ended. Source: measured queue depth of the CUDA driver, 1024 since CUDA 5 (NVIDIA
/// developer forum, "Max number of kernel launches queued").
inline constexpr std::uint32_t kLaunchQueue = 1024;

}  // namespace tracecast
