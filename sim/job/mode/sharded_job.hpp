#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/job/cluster.hpp"
#include "sim/job/parallelism.hpp"
#include "sim/parallel/transformer/step.hpp"

namespace tracecast {

/// A transformer's training step on many GPUs, with everything it was made of.
struct ShardedStep {
  std::string network{}, gpu{}, gpu_name{}, precision{}, optimizer{}, framework{}, machine{};
  std::uint32_t nodes = 1;
  std::vector<NodeNics> nics{};  ///< of several nodes
  TransformerLayout layout{};
  ParallelPlan plan{};
  TrainingSoftware software{};
  TransformerPrediction prediction{};
  /// That fits with 50 %, and with 95 %; nothing: not asked for.
  std::optional<std::int64_t> largest_micro_batch{}, sure_micro_batch{};
  std::vector<std::string> assumptions{}, warnings{};
  std::vector<InputRecord> inputs{};
};
/// Of the job counts: network, batch (sequences of a pass), accumulate, precision, optimizer,
/// framework, sequence length, recompute, adapters, CUDA graphs; empty words: what such jobs
/// usually do. Throws InputError naming the flag.
[[nodiscard]] ShardedStep predict_sharded(const Job& job, const Place& place,
                                          const Sharded& parallel_layout, const Hardware& hardware);

/// Sequences of all GPUs per second.
[[nodiscard]] Interval samples_per_s(const ShardedStep& job);

}  // namespace tracecast
