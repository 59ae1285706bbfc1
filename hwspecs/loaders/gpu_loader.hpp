#pragma once
#include <string_view>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/catalog.hpp"

namespace tracecast {

/// Reads and checks one spec in text format (hwspecs/proto/gpu_spec.proto). `where` names it in
/// errors. Throws InputError with line or field: bad syntax, a missing value, a value without a
/// source or with an unknown one, out of range, or at odds with another:
///   base and application clock <= boost clock, threads a multiple of the warp size,
///   |peak fp32 - sm_count * fp32_lanes_per_sm * 2 * boost| <= 3 %, no peak twice, tensor cores not
///   slower than CUDA cores in the same format.
[[nodiscard]] GpuSpec load_gpu_spec(std::string_view text, std::string_view where);

using GpuCatalog = Catalog<GpuSpec>;

}  // namespace tracecast
