#pragma once
#include <string>
#include <vector>

#include "models/canonical/canonical.hpp"
#include "models/graph.hpp"

namespace tracecast::onnx {

/// PyTorch's exporter folds batch norms of a network in evaluation mode into the convolutions
/// before them (torch/csrc/jit/passes/onnx/eval_peephole.cpp). Weights and biases that it computed
/// so it names by itself ("onnx::Conv_497"), others keep the names that they have in the module.
/// Each such convolution loses its bias and is followed by a batch norm again, which is what the
/// module runs; said in `warnings`.
void unfold_batch_norms(NetworkGraph& graph, std::vector<Rewrite>& rewrites,
                        std::vector<std::string>& warnings);

}  // namespace tracecast::onnx
