#pragma once

namespace tracecast {

/// How a framework runs the attention of networks of tokens.
enum class AttentionKernels {
  Steps,  ///< scores, mask, softmax and context, each through memory
  /// One kernel that keeps scores on the SM (PyTorch 2: scaled_dot_product_attention). It leaves out what comes after a
  /// query; any other mask is read and spares nothing.
  Fused,
  Sparse,  ///< the same, and neither keys beyond a window nor keys that were not chosen are computed
};

}  // namespace tracecast
