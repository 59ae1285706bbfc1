#pragma once
#include <span>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "hwspecs/software/training_software.hpp"
#include "models/adapters.hpp"
#include "models/transformer/layout.hpp"
#include "models/transformer/shard.hpp"
#include "sim/parallel/transformer/plan.hpp"
#include "sim/parallel/transformer/rank_grid.hpp"
#include "sim/step/interval.hpp"
#include "sim/step/power_limit.hpp"
#include "sim/step/step_account.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// One pass of a piece of the network on one rank: what the host issues and how long each part
/// takes alone.
struct PassCost {
  StepProgram program;  ///< kernels of the piece, then its collectives, in one stream
  Seconds kernels{};    ///< all that compute
  WorkMix mix{};        ///< of these; its energy is that of collectives too
  Seconds attention{};  ///< of these, those between the attention's GEMMs
  Seconds tensor{}, context{},
      expert{};  ///< collectives by group; what context parallelism hides is not in it
  [[nodiscard]] Seconds communications() const { return tensor + context + expert; }
};

/// A layer, the embedding or the head on one rank, for one micro-batch.
struct PieceCost {
  PassCost forward, backward;    ///< backward with whatever is computed again
  double parameters = 0;         ///< that are trained, on this rank, all weights gathered
  double expert_parameters = 0;  ///< of these, those of experts
  double frozen_parameters = 0;  ///< beside these
  Bytes kept{};                  ///< activations from forward to backward, its input counted
  Bytes working{};   ///< what a layer that keeps only its input holds while it runs backward
  double flops = 0;  ///< executed, both passes
  double forward_macs = 0,
         repeated_macs = 0;  ///< of GEMMs and attention; of the forward ones, those that run again
  std::vector<ErrorShare> errors;
};

/// All that prices a pass.
struct PassContext {
  const TransformerLayout& layout;
  const ParallelPlan& plan;
  const TrainingSoftware& software;
  const FrameworkProfile& framework;
  const GpuSpec& gpu;
  const CostProfile& cost;
  const RankGrid& grid;
  PrecisionMode precision = PrecisionMode::Bf16;
  LowRankAdapters adapters{};           ///< that alone are trained
  [[nodiscard]] Bytes element() const;  ///< of activations
  [[nodiscard]] Precision tensor_gemm_format() const;
  [[nodiscard]] TransformerShard shard() const;  ///< of the plan, as the program divides its GEMMs
};

/// A layer's kernels under a power limit, forward and backward, as if nothing came between.
[[nodiscard]] LimitedStep limit_layer(const PassContext& context, bool with_experts, Watts limit);
[[nodiscard]] PieceCost price_layer(const PassContext& context, bool with_experts);
[[nodiscard]] PieceCost price_embedding(const PassContext& context);
/// The head, with the loss.
[[nodiscard]] PieceCost price_head(const PassContext& context);

/// Programs one after the other, as one micro-batch's pass through a stage.
void append(StepProgram& program, const StepProgram& more);

}  // namespace tracecast
