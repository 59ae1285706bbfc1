#pragma once
#include <cstdint>
#include <string>

#include "models/ops.hpp"

namespace tracecast {

/// A x of the adapter beside the product `name`, of that rank, after dropout.
[[nodiscard]] TensorId adapter_narrowed(GraphBuilder& b, const std::string& name, TensorId x,
                                        std::int64_t rank);
/// s B (A x): as many columns as the product has.
[[nodiscard]] TensorId adapter_widened(GraphBuilder& b, const std::string& name, TensorId narrow,
                                       std::int64_t columns);

}  // namespace tracecast
