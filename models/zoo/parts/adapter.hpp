#pragma once
#include <cstdint>
#include <string>

#include "models/ops.hpp"

namespace tracecast {

/// A x of the adapter beside the GEMM `name`, of that rank, after dropout.
[[nodiscard]] TensorId adapter_downcast(GraphBuilder& b, const std::string& name, TensorId x,
                                        std::int64_t rank);
/// s B (A x): as many columns as the GEMM has.
[[nodiscard]] TensorId adapter_upcast(GraphBuilder& b, const std::string& name,
                                      TensorId low_precision, std::int64_t columns);

}  // namespace tracecast
