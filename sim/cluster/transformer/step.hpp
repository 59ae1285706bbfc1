#pragma once
#include <string_view>
#include <vector>

#include "hwspecs/collective_library.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/framework_profile.hpp"
#include "models/transformer/layout.hpp"
#include "sim/cluster/fabric.hpp"
#include "sim/cluster/interval.hpp"
#include "sim/cluster/transformer/plan.hpp"
#include "sim/cluster/transformer/software.hpp"

namespace tracecast {

/// A training job of a transformer on many GPUs of one kind.
struct TransformerJob {
  const TransformerLayout& layout;
  const ParallelPlan& plan;
  const TrainingSoftware& software;
  const FrameworkProfile& framework;  ///< host costs, scaled to the host
  const Fabric& fabric;               ///< as many ranks as the plan
  const CollectiveLibrary& library;
  const CostProfile& cost;
  PrecisionMode precision = PrecisionMode::Bf16;
  bool fold = true;  ///< ranks that do the same are simulated once; false: each pipeline by itself
};

/// Bytes on the fullest rank.
struct TransformerMemory {
  Bytes weights{}, gradients{}, optimizer{};
  Bytes activations{};  ///< of the micro-batches in flight
  Bytes buffers{};      ///< weights gathered, buckets, one layer computed again
  Bytes context{};
  Bytes capacity{};
  [[nodiscard]] Bytes total() const {
    return weights + gradients + optimizer + activations + buffers + context;
  }
  [[nodiscard]] bool fits() const { return total() <= capacity; }
};

/// Where the step of the slowest stage goes; sums to the step time.
struct TransformerShares {
  Seconds compute{};  ///< kernels
  Seconds tensor{};   ///< exchanges inside layers, which nothing hides
  Seconds context{};
  Seconds expert{};
  Seconds host{};    ///< the GPU waits for the host within a pass
  Seconds bubble{};  ///< stages wait for each other
  Seconds data{};    ///< gradients reduced, weights gathered, as far as nothing hides them
  Seconds update{};
};

struct TransformerPrediction {
  Interval step_time_s;
  double log_sd = 0;
  Interval tokens_per_s;               ///< all GPUs
  double model_flops_per_token = 0;    ///< 6 per multiply-add of the forward pass, attention whole
  double tflops_per_gpu = 0;           ///< model FLOPs
  double hardware_tflops_per_gpu = 0;  ///< with what recomputation repeats
  double mfu = 0;                      ///< of the peak in the job's format
  double parameters = 0;
  TransformerShares shares;
  TransformerMemory memory;
  std::int64_t ranks_simulated = 1;
};

/// One step in the middle of a run:
/// - a stage's passes: layers priced once each, their kernels, launches and exchanges in one stream, on the engine
///   (sim/cluster/step_program.hpp); micro-batches through the stages as the schedule says (pipeline.hpp);
/// - gradients reduced when a stage's last backward pass ends, or beside it where the software overlaps; the update;
///   weights gathered where ranks share them.
/// - ZeRO 3: every layer's weights gathered before its passes, one layer ahead, gradients scattered behind it, in one
///   communication stream beside the kernels.
[[nodiscard]] TransformerPrediction predict_transformer(const TransformerJob& job);

}  // namespace tracecast
