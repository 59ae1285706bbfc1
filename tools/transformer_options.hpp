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
  std::string network{}, gpu{}, gpu_name{}, precision{}, optimizer{}, framework{}, machine{};
  std::uint32_t nodes = 1;
  TransformerLayout layout{};
  ParallelPlan plan{};
  TrainingSoftware software{};
  TransformerPrediction prediction{};
  std::optional<std::int64_t> largest_micro_batch{};  ///< that fits; nothing: not asked for
  std::vector<std::string> assumptions{}, warnings{};
  std::vector<InputRecord> inputs{};
};
/// What one place and one GPU say of a job that these flags divide; empty: what such jobs usually do.
struct DividedJob {
  JobOptions job;  ///< network, GPU, board, machine, sequence length, recompute, CUDA graphs
  std::string precision, optimizer, framework;
  std::optional<std::int64_t> batch;       ///< sequences per pass and rank
  std::optional<std::int64_t> accumulate;  ///< passes per update
  bool fold = true, finds_largest_batch = false;
};
/// `cluster`: what the flags of several GPUs say. Throws InputError naming the flag.
[[nodiscard]] ShardedJob predict_sharded(const TransformerOptions& options, const DividedJob& wish,
                                         const ClusterOptions& cluster, const Sources& sources);
/// With `explains` also the table by piece: embedding, layer, head. CSV has that table alone then.
[[nodiscard]] std::string report_sharded_text(const ShardedJob& job, bool explains);
[[nodiscard]] std::string report_sharded_json(const ShardedJob& job, bool explains);
[[nodiscard]] std::string report_sharded_csv(const ShardedJob& job, bool explains);

}  // namespace tracecast
