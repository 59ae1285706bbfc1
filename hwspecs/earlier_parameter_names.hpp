#pragma once
#include <string>
#include <string_view>

namespace tracecast {

/// The name that a parameter of a cost profile has today, of one from before version 0.2.0:
/// "product.start_us" is "tensor_gemm.start_us". Any other name stays as it is.
[[nodiscard]] std::string current_parameter_name(std::string_view name);

/// Saved profiles have it, no formula does any more: GEMMs of tensor cores and their clock as they
/// were priced before `tensor_gemm.`.
[[nodiscard]] bool is_retired_parameter(std::string_view name);

}  // namespace tracecast
