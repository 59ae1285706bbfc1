#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/recompute.hpp"
#include "models/transformer/layout.hpp"
#include "models/transformer/shard.hpp"

namespace tracecast {

enum class PipelineSchedule {
  GPipe,  ///< all micro-batches forward, then all backward (Huang et al., arXiv 1811.06965)
  OneForwardOneBackward,  ///< as few in flight as stages are behind (Narayanan et al., arXiv
                          ///< 2006.09503)
  Interleaved,  ///< every rank holds several chunks of layers (Narayanan et al., arXiv 2104.04473)
};
[[nodiscard]] std::string_view to_string(PipelineSchedule schedule);

/// How a transformer's training step is divided over ranks. Ranks are numbered as Megatron-LM does,
/// tensor-parallel ones next to each other, then context, data, pipeline:
///   rank = t + tensor * (c + context * (d + data * p))
struct ParallelPlan {
  std::int64_t tensor = 1, context = 1, data = 1, pipeline = 1;
  /// Ranks that share the experts: of a stage's ranks that have other tokens as many as follow each
  /// other, tensor-parallel ones too where these are sequence parallel. Source: Megatron-LM,
  /// core/parallel_state.py, expert_tensor_parallel_size 1.
  std::int64_t expert = 1;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  std::int64_t chunks = 1;                         ///< of layers on every rank
  std::int64_t micro_batch = 1, global_batch = 1;  ///< sequences
  std::int64_t tokens = 1;                         ///< of a sequence
  bool sequence_parallel = false;
  Recompute recompute = Recompute::None;  ///< selective: attention between its GEMMs alone
  /// What data-parallel ranks share (Rajbhandari et al., arXiv 1910.02054): 1 optimizer states, 2
  /// gradients too, 3 weights too.
  int zero = 0;
  std::int64_t zero_ranks = 0;  ///< that share, the others hold copies; 0: all
  bool keeps_gathered = false;  ///< zero 3: weights gathered forward stay until the backward pass
  bool flash_attention = true;

  [[nodiscard]] std::int64_t ranks() const { return tensor * context * data * pipeline; }
  [[nodiscard]] std::int64_t micro_batches() const { return global_batch / (data * micro_batch); }
  [[nodiscard]] std::int64_t sharing_ranks() const {
    return zero_ranks > 0 ? zero_ranks : data * context;
  }
  /// Ranks that hold the same experts.
  [[nodiscard]] std::int64_t expert_copies() const { return ranks_with_tokens() / expert; }
  /// Of a stage, those with tokens of their own.
  [[nodiscard]] std::int64_t ranks_with_tokens() const {
    return (sequence_parallel ? tensor : 1) * context * data;
  }
  [[nodiscard]] TransformerShard shard() const;
};

/// What flags or a table's columns say; the rest follows.
struct PlanOptions {
  std::optional<std::int64_t> tensor{}, context{}, data{}, pipeline{}, expert{};
  std::optional<std::int64_t> micro_batch{}, global_batch{}, tokens{};
  std::optional<std::int64_t> micro_batches{};  ///< per rank, instead of a global batch
  std::string schedule = "1f1b";                ///< "gpipe", "1f1b", "interleaved:V"
  int zero = 0;
  std::int64_t zero_ranks = 0;
  bool sequence_parallel = false, keeps_gathered = false;
  std::string recompute = "none";
  std::string attention = "flash";  ///< or "unfused"
};

/// Fills in what is missing: parallel degrees 1, data-parallel ranks from the number of GPUs, one
/// micro-batch per rank. Throws InputError naming the flag: degrees that do not make up the GPUs, a
/// batch that does not divide, fewer layers than stages, interleaving without whole rounds,
/// sequence parallelism without tensor parallelism, sharded gradients or weights under a pipeline.
[[nodiscard]] ParallelPlan resolve_plan(const PlanOptions& options, const TransformerLayout& layout,
                                        std::int64_t gpus);

/// Layers of every stage and chunk, [stage * chunks + chunk]: as even as whole layers allow, the
/// first ones (but the very first, which has the embedding, and the very last, which has the head,
/// last of all) one more.
[[nodiscard]] std::vector<int> balance_layers(int layers, std::int64_t stages, std::int64_t chunks);

}  // namespace tracecast
