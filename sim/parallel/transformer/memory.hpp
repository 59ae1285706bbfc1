#pragma once
#include "models/training.hpp"
#include "sim/parallel/transformer/passes.hpp"
#include "sim/parallel/transformer/step.hpp"

namespace tracecast {

/// Weights of one rank, by who shares them with it.
struct RankWeights {
  double dense = 0, expert = 0;  ///< elements on this rank before ZeRO that are trained
  Bytes frozen{};                ///< of those that are not
};

/// Bytes of model states per weight, mixed precision (Rajbhandari et al., arXiv 1910.02054, section
/// 3):
///   weights 2, gradients 2 (4 when kept in fp32), optimizer 4 + 4 states: fp32 weight and its
///   states, Adam's two moments
/// ZeRO divides optimizer (1), gradients (2) and weights (3) by the ranks that share. In fp32: 4, 4
/// and 4 states. Without an optimizer there is no fp32 weight either. What is not trained has its
/// bytes alone, divided as weights are.
[[nodiscard]] TransformerMemory model_states(const RankWeights& weights, const ParallelPlan& plan,
                                             const TrainingSoftware& software, bool is_fp32,
                                             OptimizerKind optimizer = OptimizerKind::Adam);

}  // namespace tracecast
