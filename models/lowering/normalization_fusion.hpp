#pragma once
#include <vector>

#include "models/graph.hpp"

namespace tracecast::lowering {

/// Residual sums that run in the kernel of a batch norm, or of the convolution that the norm is
/// folded into, with the activation that follows: y = act(norm(x) + z).
struct NormalizationFusion {
  std::vector<bool> is_fused_sum;  ///< per op: a forward sum that has no kernel of its own
  std::vector<bool>
      adds_residual;  ///< per op: a forward batch norm or convolution whose kernel holds such a sum
};

/// A sum is fused when an activation is its one reader and it is the one reader of a batch norm's
/// result; of two such norms the later one takes it. Readers in backward passes do not count: the
/// kernel keeps what they need, a bit per element. Source: cuDNN Developer Guide,
/// cudnnBatchNormalizationForwardTrainingEx (CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION).
[[nodiscard]] NormalizationFusion fuse_residual_sums(const NetworkGraph& graph);

/// The same where batch norms are folded into convolutions: a convolution takes the sum when it, or
/// the norm that is the one reader of its result, would above. Source: TensorRT Developer Guide,
/// Types of Fusions, Convolution and ElementWise Sum.
[[nodiscard]] NormalizationFusion fuse_sums_into_convolutions(const NetworkGraph& graph);

}  // namespace tracecast::lowering
