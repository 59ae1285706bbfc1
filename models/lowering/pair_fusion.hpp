#pragma once
#include <optional>
#include <vector>

#include "models/lowering/layers.hpp"

namespace tracecast::lowering {

/// What one kernel of pair GEMMs takes in. Its bytes are those of `reads` and `writes`, each once.
struct PairKernel {
  OpId at;  ///< the last op that is in it
  Pass pass = Pass::Forward;
  std::vector<TensorId> reads, writes;
  /// Of a sample: vectors that meet, and their width.
  double vectors = 0, width = 0;
  double samples = 0;
};

/// GEMMs of every pair of a sample's vectors with what stands around them, in a kernel each way.
struct PairFusion {
  std::vector<bool> is_part;                       ///< by op: in one of the kernels
  std::vector<std::optional<PairKernel>> kernels;  ///< by op: the kernel that stands there
};

/// Finds, in a graph with or without its backward half, X X^T of one tensor of vectors whose one
/// reader gathers some of the GEMMs and whose reader joins those to something else; with it the
/// Concat that made X, where nothing else reads it, the views between them, and all that is the
/// gradient of these. Forward one kernel reads what is joined and writes the result; backward one
/// reads the result's gradient and the vectors, and writes the vectors' gradients. Source:
/// NVIDIA-Merlin/HugeCTR, HugeCTR/src/layers/interaction_layer.cu; NVIDIA/DeepLearningExamples,
/// PyTorch/Recommendation/DLRM/dlrm/cuda_src/dot_based_interact: a warp per sample, its vectors in
/// shared memory.
[[nodiscard]] PairFusion fuse_pair_gemms(const NetworkGraph& graph);

/// The kernel itself: memory passes once over its operands; a warp's instructions are counted from
/// that source.
[[nodiscard]] Kernel lower_pair_gemms(const Context& context, const PairKernel& pairs);

}  // namespace tracecast::lowering
