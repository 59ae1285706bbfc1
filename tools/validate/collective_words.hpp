#pragma once
#include <optional>
#include <string_view>

#include "sim/base/collective.hpp"

namespace tracecast {

/// The collective that tables of data/modern write so ("all_reduce", "alltoall"); nothing: none of
/// that name.
[[nodiscard]] std::optional<Collective> find_collective(std::string_view word);

/// The library whose all-reduce an inference engine calls, by the table's kernel_source
/// ("vLLM_custom"); empty: none of ours.
[[nodiscard]] std::string_view custom_all_reduce_library(std::string_view kernel_source);

}  // namespace tracecast
