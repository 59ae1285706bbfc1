#pragma once
#include <vector>

#include "models/graph.hpp"

namespace tracecast {

/// What a training step keeps of its forward pass: the tensors that forward ops write and ops of
/// another pass read, each memory once. A view, and what is done in place, counts as the tensor
/// whose memory it is (see `shares_memory_with_input`); inputs and weights do not count. What is
/// computed again (models/recompute.hpp) is not kept, what that reads is. `step` comes from
/// make_training_graph. In order of id.
[[nodiscard]] std::vector<TensorId> kept_activations(const NetworkGraph& step);

/// Bytes of `tensor` when floating-point numbers take `float_bytes`.
[[nodiscard]] double tensor_bytes(const Tensor& tensor, int float_bytes);

}  // namespace tracecast
