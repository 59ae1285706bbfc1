#pragma once
#include <string_view>

#include "hwspecs/cpu_spec.hpp"
#include "hwspecs/loaders/catalog.hpp"

namespace tracecast {

/// Reads and checks one spec in text format (hwspecs/proto/cpu_spec.proto). `where` names it in
/// errors. Throws InputError with line or field: bad syntax, a missing value, a value without a
/// source or with an unknown one, out of range, or at odds with another:
///   base <= all-core <= turbo clock, vector clock <= all-core clock, threads a multiple of cores,
///   FP32 operations a cycle that the vectors allow, memory bandwidth at most 60 GB/s a channel.
[[nodiscard]] CpuSpec load_cpu_spec(std::string_view text, std::string_view where);

using CpuCatalog = Catalog<CpuSpec>;

}  // namespace tracecast
