#pragma once
#include <cstdint>
#include <vector>

#include "models/kernel.hpp"

namespace tracecast::lowering {

/// LoweredStep::first_alike of these ops.
[[nodiscard]] std::vector<std::uint32_t> find_alike(const std::vector<LoweredOp>& ops);

}  // namespace tracecast::lowering
