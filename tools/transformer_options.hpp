#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/transformer/step.hpp"
#include "tools/cluster_options.hpp"
#include "tools/job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// Flags of `predict` for transformers whose layers are divided among GPUs.
struct TransformerOptions {
  PlanOptions plan;
  std::string software = "megatron";
  bool was_asked = false;  ///< any of these flags was given
};

/// Declares `--tp`, `--pp`, `--dp`, `--micro-batch` and so on.
void add_transformer_options(CLI::App& verb, TransformerOptions& options);

/// A transformer's training step on many GPUs, with everything it was made of.
struct ShardedJob {
  std::string network{}, gpu{}, gpu_name{}, precision{};
  TransformerLayout layout{};
  ParallelPlan plan{};
  TrainingSoftware software{};
  TransformerPrediction prediction{};
  std::vector<std::string> assumptions{};
  std::vector<InputRecord> inputs{};
};
/// `cluster`: what the flags of several GPUs say; `job`: network, GPU, precision, sequence length, recompute.
/// Throws InputError naming the flag.
[[nodiscard]] ShardedJob predict_sharded(const TransformerOptions& options, const JobOptions& job,
                                         const ClusterOptions& cluster, const Sources& sources,
                                         bool fold);
[[nodiscard]] std::string report_sharded_text(const ShardedJob& job);
[[nodiscard]] std::string report_sharded_json(const ShardedJob& job);
[[nodiscard]] std::string report_sharded_csv(const ShardedJob& job);

}  // namespace tracecast
