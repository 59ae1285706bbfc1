#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/ops.hpp"

/// Layers of encoders and of decoders that read an encoder's result: what their files' sizes and
/// their families' rows make of attention, feed-forward and norms. Sequences are batch x tokens x
/// width.
namespace tracecast::encoder {

enum class NormPlace {
  Before,    ///< of what attention and feed-forward read
  AfterSum,  ///< of each sum with the residual (Vaswani et al., arXiv 1706.03762)
};

/// How the distance of two tokens enters attention.
enum class Relative {
  None,
  Rotary,        ///< queries and keys are turned
  SharedTable,   ///< one learned bias per head and bucket of distances, of all layers (T5)
  LayerTable,    ///< the same, a table in each layer (BEiT)
  Disentangled,  ///< scores of content with position, two more GEMMs (DeBERTa, arXiv 2006.03654)
};

struct StackLayout {
  std::int64_t layers = 1, width = 1, heads = 1, hidden = 1;
  std::int64_t head_width = 0;  ///< 0: width / heads
  NormPlace norm_place = NormPlace::Before;
  bool root_mean_square = false;  ///< norms without a mean and without biases
  bool norm_biases = true;
  bool query_bias = true, key_bias = true, value_bias = true, output_bias = true;
  bool feed_forward_biases = true;
  bool gated = false;   ///< two GEMMs in, one times the activation of the other
  bool packed = false;  ///< one GEMM gives queries, keys and values
  std::string activation = "gelu";
  bool layer_scale = false;  ///< results times a learned number per channel
  bool causal = false;
  bool cross = false;          ///< layers read an encoder's result, too
  bool shares_layers = false;  ///< all layers have the first one's weights (ALBERT)
  bool first_norm =
      true;  ///< the first layer's attention reads a normalized input (ModernBERT: no)
  bool scales_scores = true;  ///< by 1 / sqrt(head width) (T5: no)
  bool last_norm = false;     ///< of the last layer's result
  Relative relative = Relative::None;
  std::int64_t buckets = 0;      ///< rows of the tables of distances
  bool relative_biases = false;  ///< of DeBERTa's projections of positions
  bool shares_relative = false;  ///< those are the projections of content
  bool relative_norm = false;    ///< of the rows of positions
  /// With a bias its attention goes through PyTorch's own steps: the table's heads lie innermost
  /// (T5).
  bool composes_bias = false;
  std::int64_t whole_every =
      0;  ///< every so many-th layer sees everything, the first one too; 0: all do
  std::int64_t window = 0;  ///< tokens that the others see
  bool is_eager = false;    ///< its code knows no fused attention

  [[nodiscard]] std::int64_t width_of_head() const {
    return head_width > 0 ? head_width : width / heads;
  }
  [[nodiscard]] std::int64_t inner() const { return heads * width_of_head(); }
};

/// What a run of layers depends on besides its layout.
struct Run {
  GraphBuilder& b;
  AttentionKernels attention = AttentionKernels::Steps;
  bool training = false;
  double dropout = 0;  ///< probability; 0: no op
  TensorId constant{};
};

/// The layers on `x`; `memory`: what cross attention reads. `name` goes before all names.
[[nodiscard]] TensorId run_stack(const Run& run, const StackLayout& layout, const std::string& name,
                                 TensorId x, std::optional<TensorId> memory = {});

/// Layer norm or root mean square norm over the last dimension, as the layout says.
[[nodiscard]] TensorId norm(const Run& run, const StackLayout& layout, const std::string& name,
                            TensorId x);
/// An activation by its name in a file: "gelu", "gelu_new", "quick_gelu", "relu", "silu", ...
[[nodiscard]] TensorId activate(const Run& run, const std::string& function,
                                const std::string& name, TensorId x);
/// Attention of learned queries to all tokens (SigLIP's head): 1 query of `width`.
[[nodiscard]] TensorId attend_between(const Run& run, const StackLayout& layout,
                                      const std::string& name, TensorId queries, TensorId keys);
[[nodiscard]] TensorId feed_forward(const Run& run, const StackLayout& layout,
                                    const std::string& name, TensorId x);
[[nodiscard]] TensorId dropped(const Run& run, const std::string& name, TensorId x);
/// A learned vector before or beside each sequence: batch x `count` x width.
[[nodiscard]] TensorId learned_tokens(GraphBuilder& b, const std::string& name, std::int64_t count,
                                      std::int64_t width);

}  // namespace tracecast::encoder
