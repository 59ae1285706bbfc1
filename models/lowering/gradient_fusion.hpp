#pragma once
#include <vector>

#include "models/graph.hpp"

namespace tracecast::lowering {

/// Sums of two gradients of one tensor that run in the kernel of the convolution that computes the
/// second.
struct GradientFusion {
  std::vector<bool> is_fused_sum;   ///< per op: a sum that has no kernel of its own
  std::vector<bool> adds_gradient;  ///< per op: a convolution that adds its result to what is there
};

/// A sum is fused when its second operand is the gradient of an image that a convolution computes
/// after the first one is there. Source: apache/mxnet 1.x,
/// src/executor/inplace_addto_detect_pass.cc; cuDNN takes the old image as beta.
[[nodiscard]] GradientFusion fuse_gradient_sums(const NetworkGraph& graph);

}  // namespace tracecast::lowering
