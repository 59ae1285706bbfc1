#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// How a framework runs the attention of networks of tokens.
enum class AttentionKernels {
  Steps,  ///< scores, mask, softmax and context, each through memory
  /// One kernel that keeps scores on the SM (PyTorch 2: scaled_dot_product_attention). It leaves
  /// out what comes after a query; any other mask is read and spares nothing.
  Fused,
  Sparse,  ///< the same, and neither keys beyond a window nor keys that were not chosen are
           ///< computed
  /// Steps of PyTorch's own for what its kernels do not take: keys and values repeated, queries and
  /// keys scaled, a mask added, softmax, and a search for rows without any key
  /// (aten/src/ATen/native/transformers/attention.cpp, _scaled_dot_product_attention_math and
  /// _safe_softmax).
  Composed,
};

/// What a framework makes of the code that networks are written in.
struct NetworkCode {
  AttentionKernels attention = AttentionKernels::Steps;
  /// Of heads that share keys; nothing: as `attention`.
  std::optional<AttentionKernels> grouped_attention{};
  /// The network runs in 16 bits, and what its code casts to 32 is cast.
  bool casts_as_written = false;
  /// A compiler runs it: what its code writes out in steps that pass over the same elements is one.
  bool is_compiled = false;
  /// Families (model_type of a config.json) whose code does not call the framework's kernel yet
  /// (FusedSince).
  std::vector<std::string> stepwise{};

  [[nodiscard]] AttentionKernels attention_of(std::string_view family) const {
    const bool is_stepwise = std::find(stepwise.begin(), stepwise.end(), family) != stepwise.end();
    return is_stepwise ? AttentionKernels::Steps : attention;
  }
};

}  // namespace tracecast
