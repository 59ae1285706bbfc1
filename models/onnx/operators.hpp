#pragma once
#include <cstdint>
#include <string_view>

#include "models/onnx/interpreter.hpp"

namespace tracecast::onnx {

/// True for standard operators that this importer follows; the others are bounded and reported.
[[nodiscard]] bool has_operator(std::string_view op_type);

/// Infers the outputs of one node and appends its ops. An operator nobody knows becomes an op of
/// kind Unknown. Throws InputError when shapes or attributes are impossible.
void apply_operator(Interpreter& run, std::uint32_t node_index);

}  // namespace tracecast::onnx
