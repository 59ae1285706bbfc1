#pragma once
#include <cstddef>
#include <limits>

#include "models/onnx/call.hpp"

namespace tracecast::onnx {

/// Where a layer's operator has its operands: operators that quantise or fuse put others between
/// them.
struct LayerInputs {
  std::size_t x, weight;
  std::size_t bias = std::numeric_limits<std::size_t>::max();  ///< none
};

/// Handlers of Conv, Gemm and MatMul, with their attributes, for operands at any place.
[[nodiscard]] bool conv_from(const Call& call, const LayerInputs& at);
[[nodiscard]] bool gemm_from(const Call& call, const LayerInputs& at);
[[nodiscard]] bool matmul_from(const Call& call, const LayerInputs& at);

}  // namespace tracecast::onnx
