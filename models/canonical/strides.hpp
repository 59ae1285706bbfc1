#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph.hpp"

namespace tracecast::canonical {

/// Where elements lie, as PyTorch says it: steps in elements along each dimension.
using Strides = std::vector<std::int64_t>;

/// Row by row, the last dimension innermost.
[[nodiscard]] Strides contiguous(const Shape& shape);
/// Of an image N,C,H,W whose channels are innermost.
[[nodiscard]] Strides channels_last(const Shape& shape);
/// Dimensions of one element may have any stride.
[[nodiscard]] bool is_contiguous(const Shape& shape, const Strides& strides);
/// As convolutions of PyTorch decide it (c10/core/MemoryFormat.h, is_channels_last_strides_2d).
[[nodiscard]] bool is_channels_last(const Shape& shape, const Strides& strides);
/// Every element once, without gaps, in some order of the dimensions.
[[nodiscard]] bool is_dense(const Shape& shape, const Strides& strides);
/// Dense strides in the order of dimensions of others: what results of arithmetic have.
[[nodiscard]] Strides dense_like(const Shape& shape, const Strides& strides);
/// Strides under which the same elements have another shape; nothing: a copy is needed
/// (aten/src/ATen/TensorUtils.cpp, computeStride).
[[nodiscard]] std::optional<Strides> view(const Shape& shape, const Strides& strides,
                                          const Shape& as);

}  // namespace tracecast::canonical
