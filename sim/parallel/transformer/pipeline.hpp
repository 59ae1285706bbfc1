#pragma once
#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/parallel/transformer/plan.hpp"

namespace tracecast {

/// Micro-batches through stages. Stage s holds `chunks` groups of layers; data passes chunk 0 of
/// all stages, then chunk 1 and so on.
struct PipelineProblem {
  int stages = 1, chunks = 1;
  std::int64_t micro_batches = 1;
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  std::vector<Seconds> forward{}, backward{};  ///< [stage * chunks + chunk], one micro-batch
  Seconds send{};  ///< of activations, or their gradients, to the neighbour
  /// Copies of the pipeline simulated side by side, as data- and tensor-parallel ranks are; they do
  /// the same at the same time, so that one tells all.
  int copies = 1;
};
struct PipelineRun {
  Seconds makespan{};
  std::vector<Seconds> done;  ///< per stage: end of its last backward pass (of all copies)
  std::vector<Seconds> busy;  ///< per stage: time of its passes
};

/// Runs the schedule on the engine: passes of a stage in the order the schedule gives, each after
/// what it reads has arrived. Without imbalance and sends 1F1B and GPipe take (micro_batches +
/// stages - 1) (forward + backward), of which (stages - 1) / (micro_batches + stages - 1) is
/// bubble; interleaving divides the bubble by `chunks`. Needs whole rounds (micro_batches a
/// multiple of stages) when interleaved.
[[nodiscard]] PipelineRun run_pipeline(const PipelineProblem& problem);

/// Micro-batches (times chunks) whose activations the first stage holds at once; see run_pipeline's
/// orders.
///   gpipe m, 1f1b min(m, p), interleaved min(m v, 2 (p - 1) + (v - 1) p + 1), of chunks with 1 / v
///   of the layers
[[nodiscard]] std::int64_t most_in_flight(PipelineSchedule schedule, std::int64_t stages,
                                          std::int64_t chunks, std::int64_t micro_batches);

}  // namespace tracecast
