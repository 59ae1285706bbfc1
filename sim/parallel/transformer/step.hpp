#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "hwspecs/collective_library.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "hwspecs/software/training_software.hpp"
#include "models/adapters.hpp"
#include "models/training.hpp"
#include "models/transformer/layout.hpp"
#include "sim/network/fabric.hpp"
#include "sim/parallel/transformer/plan.hpp"
#include "sim/step/interval.hpp"
#include "sim/step/memory/fit.hpp"
#include "sim/step/metrics.hpp"

namespace tracecast {

/// A training job of a transformer on many GPUs of one kind.
struct TransformerRequest {
  const TransformerLayout& layout;
  const ParallelPlan& plan;
  const TrainingSoftware& software;
  const FrameworkProfile& framework;  ///< host costs, scaled to the host
  const Fabric& fabric;               ///< as many ranks as the plan
  const CollectiveLibrary& library;
  const CostProfile& cost;
  PrecisionMode precision = PrecisionMode::Bf16;
  /// Layers that a recipe of fewer than 16 bits keeps in bf16, from either end.
  int first_wide_layers = 0, last_wide_layers = 0;
  bool fold = true;  ///< ranks that do the same are simulated once; false: each pipeline by itself
  OptimizerKind optimizer = OptimizerKind::Adam;
  LowRankAdapters adapters{};  ///< any: they are trained, the network's weights are not
  const GpuSpec* gpu =
      nullptr;  ///< the fabric's, at the clocks it is held at; nothing: as the fabric has it
  std::optional<Watts> power_limit{};  ///< nothing: the board's own
};

/// What a power limit leaves to the kernels of the layers.
struct LimitedClock {
  Watts limit{};
  Hertz clock{};  ///< of the SMs, averaged over the time that they run
  bool throttles = false;
};

/// Bytes on the fullest rank.
struct TransformerMemory {
  Bytes weights{}, gradients{}, optimizer{};
  Bytes activations{};  ///< of the micro-batches in flight
  Bytes buffers{};      ///< weights gathered, buckets, one layer computed again
  Bytes pool{};         ///< held by the allocator beyond that
  Bytes context{};
  Bytes capacity{};
  double log_sd = 0.1;  ///< standard deviation of ln(needed / total())
  [[nodiscard]] Bytes total() const {
    return weights + gradients + optimizer + activations + buffers + pool + context;
  }
  [[nodiscard]] bool fits() const { return total() <= capacity; }
  [[nodiscard]] MemoryFit fit() const { return memory_fit(total(), total(), capacity, log_sd); }
};

/// Where the step of the slowest stage goes; sums to the step time.
struct TransformerShares {
  Seconds compute{};  ///< kernels, as they run alone
  Seconds slowed{};   ///< what they take longer because collectives keep SMs beside them
  Seconds tensor{};   ///< collectives inside layers, which nothing hides
  Seconds context{};
  Seconds expert{};
  Seconds host{};    ///< the GPU waits for the host within a pass
  Seconds bubble{};  ///< stages wait for each other
  Seconds data{};    ///< gradients reduced, weights gathered, as far as nothing hides them
  Seconds update{};
  Seconds stragglers{};  ///< ranks wait for the slowest of them, wherever they meet
};

/// A layer, the embedding or the head on one rank, one micro-batch.
struct PieceTimes {
  std::string_view name;
  int count = 1;                  ///< in the network
  Seconds forward{}, backward{};  ///< kernels; backward with what is computed again
  Seconds communications{};       ///< inside the piece, both passes
  double parameters = 0;          ///< on this rank, all weights gathered, trained or not
  Bytes kept{};                   ///< activations from forward to backward
};

struct TransformerPrediction {
  Interval step_time_s;
  double log_sd = 0;
  Interval tokens_per_s;  ///< all GPUs
  /// 6 per multiply-add of the forward pass, attention whole; 4 for GEMMs with weights that are not
  /// trained.
  double model_flops_per_token = 0;
  double tflops_per_gpu = 0;           ///< model FLOPs
  double hardware_tflops_per_gpu = 0;  ///< with what recomputation repeats
  double mfu = 0;                      ///< of the peak in the job's format
  double parameters = 0;               ///< of the network, and of adapters
  double trained_parameters = 0;       ///< of these
  TransformerShares shares;
  TransformerMemory memory;
  std::vector<PieceTimes> pieces;
  /// The same time by kernel class, the parts of `shares` that are none beside it; by basis,
  /// collectives and hosts being transferred from other machines.
  std::vector<TimeShare> by_class, by_basis;
  /// Of the mean board: active-idle + energy of all kernels and collectives / step, at most the
  /// limit. Windows are not told apart: least and greatest are the mean.
  PowerRange board;
  Joules energy_per_token{};          ///< of all boards
  std::optional<LimitedClock> power;  ///< where a power limit was asked for
  std::int64_t ranks_simulated = 1;
};

/// One step in the middle of a run:
/// - a stage's passes: layers priced once each, their kernels, launches and collectives in one
/// stream, on the engine
///   (sim/step/step_program.hpp); micro-batches through the stages as the schedule says
///   (pipeline.hpp);
/// - gradients reduced when a stage's last backward pass ends, or beside it where the software
/// overlaps; the update;
///   weights gathered where ranks share them.
/// - ZeRO 3: every layer's weights gathered before its passes, one layer ahead, gradients scattered
/// behind it, in one
///   communication stream beside the kernels.
/// - A power limit is held over a layer's kernels, forward and backward one after the other, as a
/// step runs them by the
///   thousand; what waiting for collectives and stages would give back is left out.
[[nodiscard]] TransformerPrediction predict_transformer(const TransformerRequest& job);

}  // namespace tracecast
