#pragma once
#include <cstdint>
#include <optional>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/graph.hpp"
#include "models/language/network.hpp"

namespace tracecast {

struct LanguageGraphSizes {
  std::int64_t batch = 1, tokens = 1;  ///< sequences, and tokens of each
  AttentionKernels attention = AttentionKernels::Steps;
  /// Of heads that share keys, without a mask; nothing: as `attention`.
  std::optional<AttentionKernels> grouped_attention{};
  bool casts_as_written = false;  ///< see NetworkCode
  bool is_compiled = false;       ///< likewise
  bool training = false;
};

/// The forward pass over whole sequences as transformers runs it: ids in, logits of every token
/// out. Steps of norms and rotary positions are ops of their own (transformers 4.40,
/// modeling_llama.py and its kin), and with `Steps` scores, scale, mask, softmax and context are.
/// With `casts_as_written` root mean square norms, softmax and the logits of a training step are
/// cast to 32 bits (modeling_llama.py: LlamaRMSNorm, eager_attention_forward, logits.float()).
/// Fused: one op over views of heads, the keys shared by the heads of a group; a window, a block or
/// chosen keys make a mask that is read; linear positions (ALiBi) and sinks, which PyTorch's
/// kernels lack, keep to steps. Composed: PyTorch's own steps with keys and values repeated
/// (AttentionKernels). Sparse: all in one kernel, and chosen keys of latent attention are read as
/// latents that all heads share (DeepSeek-V3.2). Experts run one by one where their source does,
/// else as GEMMs of all experts at once, every expert with an even share of the tokens; with fewer
/// tokens than experts, as many experts as can be met. Recurrences (gated delta rule, state space)
/// are ops of kind Scan. Prediction layers are not run. Throws InputError naming the network:
/// tokens beyond learned positions or 2^20, sizes whose GEMM is too large.
[[nodiscard]] NetworkGraph language_graph(const LanguageNetwork& network,
                                          const LanguageGraphSizes& sizes);

/// Most tokens of a network with learned positions: its context, where its class adds rows to the
/// table; 0: it has none.
[[nodiscard]] std::int64_t learned_positions(const LanguageNetwork& network);

/// Tokens of a sequence where nobody says how many: the context, at most 4096.
[[nodiscard]] std::int64_t usual_tokens(const LanguageNetwork& network);

}  // namespace tracecast
