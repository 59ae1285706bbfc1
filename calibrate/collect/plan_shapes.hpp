#pragma once
#include <cstddef>

#include "calibrate/device/experiment.hpp"

namespace tracecast::calibrate {

/// A choice among `count` for the i-th shape, the same every time and unrelated to the shape's
/// sizes (i modulo a number would follow Halton's points: every second one lies in the lower half).
/// `salt` tells choices of one shape apart.
[[nodiscard]] std::size_t pick(std::size_t i, std::size_t salt, std::size_t count);

/// The i-th shape of each class, i = 0, 1, ...: points of Halton's sequence, evenly spread over the
/// logarithms of sizes that networks have. The ranges stand in the source. No two functions depend
/// on each other.
[[nodiscard]] GemmShape gemm_shape(std::size_t i);
[[nodiscard]] GemmShape batched_gemm_shape(std::size_t i);
/// Dense, grouped and depthwise; filters of 1, 3, 5 and 7; strides 1 and 2.
[[nodiscard]] ConvAttributes convolution_shape(std::size_t i);
[[nodiscard]] PoolingShape pooling_shape(std::size_t i);
[[nodiscard]] BatchNormShape batch_norm_shape(std::size_t i);
[[nodiscard]] RowsShape rows_shape(std::size_t i, bool softmax);
[[nodiscard]] ElementwiseShape elementwise_shape(std::size_t i);
[[nodiscard]] ReductionShape reduction_shape(std::size_t i);
[[nodiscard]] EmbeddingShape embedding_shape(std::size_t i);
[[nodiscard]] RecurrentShape recurrent_shape(std::size_t i);
[[nodiscard]] OptimizerShape optimizer_shape(std::size_t i);
/// Peer copies only where `gpus` > 1.
[[nodiscard]] CopyShape copy_shape(std::size_t i, int gpus);
[[nodiscard]] AllReduceShape all_reduce_shape(std::size_t i, int gpus);

}  // namespace tracecast::calibrate
