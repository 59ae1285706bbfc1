#pragma once
#include <cstdint>
#include <vector>

#include "hwspecs/software/training_software.hpp"
#include "models/adapters.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "models/transformer/layout.hpp"

namespace tracecast {

/// One rank's part of a transformer for one micro-batch.
struct TransformerShard {
  std::int64_t micro_batch = 1;
  std::int64_t tokens = 1;  ///< of a sequence, over all context-parallel ranks
  /// Ranks that share every GEMM: heads and feed-forward are divided among them (Shoeybi et al.,
  /// arXiv 1909.08053: first GEMM by columns, second by rows), the table by vocabulary.
  std::int64_t tensor = 1;
  /// What is not divided by `tensor`, norms, dropout and residuals, is divided by tokens
  /// (Korthikanti et al., arXiv 2205.05198, section 4.2.2).
  bool sequence_parallel = false;
  std::int64_t context = 1;  ///< ranks that share a sequence; keys and values pass round
  std::int64_t expert = 1;   ///< ranks that share the experts
  bool flash_attention = true;
  bool separate_gate = false;  ///< gate and feed-forward are two GEMMs, then two kernels
  LowRankAdapters adapters{};  ///< beside the layers' GEMMs, whose weights are constants then

  [[nodiscard]] std::int64_t tokens_here() const { return tokens / context; }
  /// Tokens in norms and residuals.
  [[nodiscard]] std::int64_t residual_tokens() const {
    return sequence_parallel ? tokens_here() / tensor : tokens_here();
  }
};

/// Rows of a table that `tensor` ranks share: the vocabulary rounded up to 128 rows per rank, as
/// Megatron-LM pads it.
[[nodiscard]] std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t tensor);

/// Forward graph of one layer on one rank: norm, packed GEMM, attention, GEMM, residual; norm,
/// feed-forward or experts, residual. Ops of the attention between its GEMMs are named "core.*".
/// Input and output are residual tokens x width; the input is a view of a weight of that shape, so
/// that gradients reach it (its bytes are the caller's to count). Biases stand with their GEMMs.
/// With adapters A is whole beside GEMMs of columns, and reads residual tokens; beside GEMMs of
/// rows it is divided as they are, and what it gives is summed over the ranks before B. Experts,
/// shared ones too, and routers have none. Throws InputError where heads, feed-forward, tokens or
/// experts do not divide, and for latent attention with adapters or step by step.
[[nodiscard]] NetworkGraph sharded_layer(const TransformerLayout& layout,
                                         const TransformerShard& shard, bool with_experts);
/// Table of tokens (one part of the vocabulary), positions, dropout.
[[nodiscard]] NetworkGraph sharded_embedding(const TransformerLayout& layout,
                                             const TransformerShard& shard);
/// Last norm and the GEMM with the table; outputs logits of this rank's part of the vocabulary.
[[nodiscard]] NetworkGraph sharded_head(const TransformerLayout& layout,
                                        const TransformerShard& shard);

/// Which ranks talk.
enum class ShardGroup { Tensor, Context, Expert };
enum class ShardCommunication { AllReduce, ReduceScatter, AllGather, AllToAll, Ring };
/// What the ranks of a group communication once in a pass of a layer, embedding or head.
struct ShardCollective {
  ShardGroup group{};
  ShardCommunication communication{};
  double elements = 0;   ///< of the whole buffer of one rank (gathered size)
  bool is_wide = false;  ///< fp32 whatever the activations are
};
struct ShardCollectives {
  std::vector<ShardCollective> forward, backward;
};
/// Tensor: two all-reduces each way, or all-gather and reduce-scatter pairs in their place
/// (backward gathers the inputs of both GEMMs once more, for the weights' gradients, if these are
/// trained); into latent attention go what its GEMMs down give, not the residuals. Experts: tokens
/// out and back. Context: keys and values pass round, backward with their gradients. Adapters: what
/// A gives beside a pair of GEMMs is gathered and summed, as are its gradients.
[[nodiscard]] ShardCollectives layer_collectives(const TransformerLayout& layout,
                                                 const TransformerShard& shard, bool with_experts);
[[nodiscard]] ShardCollectives embedding_collectives(const TransformerLayout& layout,
                                                     const TransformerShard& shard);
[[nodiscard]] ShardCollectives head_collectives(const TransformerLayout& layout,
                                                const TransformerShard& shard);

struct LossWork {
  std::vector<Kernel> forward, backward;
};
/// Loss over this rank's logits: `rows` tokens x `columns` classes in a 16-bit format.
[[nodiscard]] LossWork vocabulary_loss(LossKernels kernels, double rows, double columns,
                                       Precision format);

}  // namespace tracecast
