#pragma once
#include <string>
#include <string_view>

#include "sim/base/units.hpp"

namespace tracecast {

/// How a library of collectives behaves, by its version.
struct CollectiveLibrary {
  std::string id;  ///< "nccl"
  int major = 2, minor = 10;
  Seconds launch{};  ///< of one collective, whatever its size
  Seconds step{};    ///< of one step of a ring, beside the latency of its links
};

/// The library `id` ("nccl", ...) of a version such as "2.4"; empty: a recent one. Throws InputError.
[[nodiscard]] CollectiveLibrary find_collective_library(std::string_view id,
                                                        std::string_view version = "");

}  // namespace tracecast
