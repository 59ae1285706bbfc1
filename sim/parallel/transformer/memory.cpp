#include "sim/parallel/transformer/memory.hpp"

#include <algorithm>

namespace tracecast {

TransformerMemory model_states(const RankWeights& weights, const ParallelPlan& plan,
                               const TrainingSoftware& software, bool is_fp32,
                               OptimizerKind optimizer) {
  const double all = static_cast<double>(plan.sharing_ranks());
  // Experts have copies on as many ranks fewer as share them.
  const double with_tokens = all * (plan.sequence_parallel ? static_cast<double>(plan.tensor) : 1);
  const double expert_ranks = std::max(1.0, with_tokens / static_cast<double>(plan.expert));
  const auto shared_from = [&](int stage) {
    return plan.zero >= stage ? weights.dense / all + weights.expert / expert_ranks
                              : weights.dense + weights.expert;
  };
  TransformerMemory memory;
  memory.weights = Bytes(is_fp32 ? 4 : 2) * shared_from(3) +
                   (plan.zero >= 3 ? weights.frozen / all : weights.frozen);
  memory.gradients = Bytes(is_fp32 || software.wide_gradients ? 4 : 2) * shared_from(2);
  const double weight_copy = is_fp32 || optimizer == OptimizerKind::None ? 0 : 4;
  memory.optimizer = Bytes(weight_copy + state_bytes(optimizer)) * shared_from(1);
  return memory;
}

}  // namespace tracecast
