#pragma once
#include <string_view>

#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// What the driver lets a card reach without going through host memory.
struct PeerAccess {
  bool over_pcie = true;   ///< other GPUs below the same root complex
  bool to_network = true;  ///< NICs (GPUDirect RDMA)
};

/// Reads such a file; `where` names it in errors. Throws InputError: syntax, a rule without product
/// line.
[[nodiscard]] PeerAccess parse_peer_access(std::string_view text, std::string_view where,
                                           const GpuSpec& gpu);

}  // namespace tracecast
