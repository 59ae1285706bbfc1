#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/ops.hpp"

/// What networks of tokens share. Sequences are batch x tokens x width; inside attention batch x
/// heads x tokens x head width.
namespace tracecast::zoo_builders {

/// How attention divides its width.
struct Heads {
  std::int64_t count = 1, width = 1;
};

/// What attention does between its two GEMMs, besides the softmax.
struct ScoreOptions {
  TensorId scale;                  ///< a scalar: 1 / sqrt(head width)
  std::optional<TensorId> mask{};  ///< broadcasts to batch x heads x queries x keys
  bool mask_selects = false;       ///< where(mask, scores, lowest) rather than scores + mask
  bool scale_query = false;        ///< the query was scaled already: the scores are not
  bool dropout = false;            ///< on the probabilities
  bool wide_softmax = false;       ///< in 32 bits where the network runs in 16
};

/// A number fixed when the network is written, kept as a tensor without dimensions.
[[nodiscard]] TensorId scalar(GraphBuilder& b, const std::string& name);

/// Integers that are kept, not learned: positions, masks (1 byte each).
[[nodiscard]] TensorId integer_table(GraphBuilder& b, const std::string& name, Shape shape,
                                     int bytes);

/// batch x tokens x (heads * width) to batch x heads x tokens x width, in one copy.
[[nodiscard]] TensorId to_heads(GraphBuilder& b, const std::string& name, TensorId x,
                                const Heads& heads);

/// The same with the last two axes swapped, ready to be the right operand of scores.
[[nodiscard]] TensorId to_key_heads(GraphBuilder& b, const std::string& name, TensorId x,
                                    const Heads& heads);

/// Queries, keys and values of one GEMM that gives them side by side: each batch x heads x tokens x
/// width. Splitting and permuting are views; the copy each GEMM's operand needs does both at once.
[[nodiscard]] std::array<TensorId, 3> split_heads(GraphBuilder& b, const std::string& name,
                                                  TensorId x, const Heads& heads);

/// Back to batch x tokens x (heads * width).
[[nodiscard]] TensorId from_heads(GraphBuilder& b, const std::string& name, TensorId x);

/// softmax(q k * scale, masked) v, every step an op of its own as frameworks ran it before fused
/// attention (2023). `key` is batch x heads x width x tokens, or batch x heads x tokens x width
/// with `transpose_key`. Ops are named NAME.scores, NAME.softmax, NAME.context and so on.
[[nodiscard]] TensorId attend(GraphBuilder& b, const std::string& name, TensorId query,
                              TensorId key, TensorId value, const ScoreOptions& options,
                              bool transpose_key = false);

/// softmax(q k) v in one kernel (Dao, "FlashAttention-2", arXiv 2307.08691). `packed`: queries,
/// keys and values side by side, batch x tokens x ((heads + 2 * kv_heads) * width); the result is
/// batch x queries x (heads * width). Beside it the kernel keeps a statistic per head and query for
/// the backward pass. Tensors are named NAME and NAME.statistics, the op NAME.attention.
[[nodiscard]] TensorId attend_fused(GraphBuilder& b, const std::string& name, TensorId packed,
                                    const AttentionAttributes& attributes);

/// The same of separate tensors, and of what else the kernel reads: a mask, sinks. Views of heads
/// are as good as copies. The result is named NAME.context.
[[nodiscard]] TensorId attend_fused(GraphBuilder& b, const std::string& name,
                                    std::vector<TensorId> query_key_value,
                                    const AttentionAttributes& attributes);

/// What PyTorch's composed attention does besides.
struct ComposedOptions {
  TensorId constant;     ///< a scalar
  TensorId mask;         ///< is added; broadcasts to batch x heads x queries x keys
  bool upcasts = false;  ///< operands of 16 bits: all between is in 32
  bool dropout = false;  ///< on the probabilities
};

/// AttentionKernels::Composed of heads as views: batch x heads x tokens x width each, as many heads
/// of keys as of queries. Halves of the scale go to queries and keys; results for rows without any
/// key are set to zero, which softmax's own gradient passes over. The making of a causal mask, one
/// per call, is left out.
[[nodiscard]] TensorId attend_composed(GraphBuilder& b, const std::string& name, TensorId query,
                                       TensorId key, TensorId value,
                                       const ComposedOptions& options);

/// batch x tokens x (heads * width) as batch x heads x tokens x width without a copy.
[[nodiscard]] TensorId view_heads(GraphBuilder& b, const std::string& name, TensorId x,
                                  const Heads& heads);

/// A MoE in place of a feed-forward.
struct MoeOptions {
  std::int64_t experts = 1, per_token = 1;
  std::int64_t capacity = 1;  ///< tokens of a sequence that one expert takes at most
};

/// NAME.router's GEMM and softmax choose each token's experts, `per_token` of them; expert by
/// expert, its tokens are picked, go through `expert(name, tokens)` and are written over those of
/// the input (NAME.expert_I.pick and .put), and all are weighted by NAME.gate. Tokens beyond the
/// capacity stay. Who goes where depends on the data: everyone is taken to get an even share. The
/// wait for the host that picking takes is not in the graph.
[[nodiscard]] TensorId mixture_of_experts(
    GraphBuilder& b, const std::string& name, TensorId x, const MoeOptions& options,
    const std::function<TensorId(const std::string&, TensorId)>& expert);

/// GELU by tanh, step by step, as transformers runs "gelu_new", in eight kernels:
///   0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
/// `constant`: a scalar.
[[nodiscard]] TensorId gelu_by_tanh(GraphBuilder& b, const std::string& name, TensorId x,
                                    TensorId constant);

/// What of a root mean square norm runs in 32 bits where the network runs in 16.
enum class WideNorm {
  None,
  All,      ///< all but the weight's GEMM (modeling_llama.py, LlamaRMSNorm)
  Squares,  ///< the same, but x itself meets the wide scale as it is (modeling_t5.py, T5LayerNorm)
};

/// Root mean square norm of T5 and Llama as transformers runs it, step by step: x * rsqrt(mean(x^2)
/// + epsilon) * weight. `constant`: a scalar.
[[nodiscard]] TensorId rms_norm(GraphBuilder& b, const std::string& name, TensorId x,
                                TensorId constant, WideNorm wide = WideNorm::None);
/// The same without the weight; the GEMM is named `result`.
[[nodiscard]] TensorId rms_scaled(GraphBuilder& b, const std::string& name,
                                  const std::string& result, TensorId x, TensorId constant,
                                  WideNorm wide = WideNorm::None);

/// What the loss of a network of next words reads: logits, which transformers casts to 32 bits in
/// training (loss_utils.py, ForCausalLMLoss).
[[nodiscard]] TensorId loss_logits(GraphBuilder& b, TensorId logits, bool training, bool casts);

/// Softmax over the last dimension, NAME.softmax; `wide`: in 32 bits between two casts.
[[nodiscard]] TensorId softmax_in(GraphBuilder& b, const std::string& name, TensorId x, bool wide);

}  // namespace tracecast::zoo_builders
