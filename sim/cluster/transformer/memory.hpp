#pragma once
#include "sim/cluster/transformer/passes.hpp"
#include "sim/cluster/transformer/step.hpp"

namespace tracecast {

/// Weights of one rank, by who shares them with it.
struct RankWeights {
  double dense = 0, expert = 0;  ///< elements on this rank before ZeRO
};

/// Bytes of model states per weight, mixed precision with Adam (Rajbhandari et al., arXiv 1910.02054, section 3):
///   weights 2, gradients 2 (4 when kept in fp32), optimizer 12: fp32 weight and two moments.
/// ZeRO divides optimizer (1), gradients (2) and weights (3) by the ranks that share. In fp32: 4, 4 and 8.
[[nodiscard]] TransformerMemory model_states(const RankWeights& weights, const ParallelPlan& plan,
                                             const TrainingSoftware& software, bool is_fp32);

}  // namespace tracecast
