#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/cpu_spec.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/machine_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "hwspecs/software/job_spec.hpp"
#include "models/adapters.hpp"
#include "models/graph.hpp"
#include "sim/job/graph_store.hpp"
#include "sim/job/hardware.hpp"
#include "sim/job/job.hpp"
#include "sim/step/prediction.hpp"
#include "sim/step/training_loop.hpp"

namespace tracecast {

struct ShardedNetwork;

/// A job with everything looked up.
struct ResolvedJob {
  PlacedJob options;
  bool from_file = false;  ///< the network is an ONNX file
  GpuSpec gpu;             ///< without one: device_of(*cpu)
  /// The same without factors of hardware, whose algorithms it runs; nothing where there are none.
  std::optional<GpuSpec> sold_gpu{};
  std::optional<CpuNode> cpu;   ///< the step runs on these cores and on no GPU
  std::optional<CpuSpec> host;  ///< whose thread dispatches: named, or assumed
  std::optional<MachineSpec> machine;
  FrameworkProfile framework;
  std::optional<JobSpec> program;  ///< the loop round the step, of a network given as "job:ID"
  Hertz loop_core_speed{};         ///< of the thread that runs it, in Haswell's cycles a second
  PrecisionMode precision{};
  Phase phase{};
  std::optional<InputRequest>
      input;  ///< what loads the data; nothing for synthetic data and memory
  // Graphs never change: jobs of a Predictor share them.
  std::shared_ptr<const NetworkGraph> forward;  ///< as built
  /// What is predicted; with several micro-batches, the last one and the update.
  std::shared_ptr<const NetworkGraph> step;
  std::shared_ptr<const NetworkGraph> micro_batch;  ///< one of those before it; nothing: none
  std::shared_ptr<const ShardedNetwork>
      tables;                ///< the step is that of a rank with a part of them; nothing: all of it
  Bytes read_from_stores{};  ///< by each step, out of stores that lie in parts on all GPUs
  std::shared_ptr<PreparedSteps> prepared;  ///< what is known of their kernels; nothing: nothing
  std::vector<InputRecord> inputs;
  std::vector<std::string> assumptions;  ///< what was chosen for the user, one line each
  std::vector<std::string> warnings;     ///< what makes the answer less sure, one line each
  std::vector<Rewrite> rewrites{};       ///< of a file's ops, rule by rule
};
/// What the loop of `job.program` needs to know of its step.
[[nodiscard]] LoopContext loop_context(const ResolvedJob& job);
/// A job with everything looked up. Throws InputError naming the flag.
[[nodiscard]] ResolvedJob make_job(const PlacedJob& options, const Hardware& hardware);
/// The same with graphs from the store.
[[nodiscard]] ResolvedJob make_job(const PlacedJob& options, const Hardware& hardware,
                                   GraphStore& graphs);
/// Throws InputError where the job is wrong wherever it runs: a word, a size, its network.
void check_words(const Job& job, const Hardware& hardware, GraphStore& graphs);

/// Lowers, prices and simulates the job's step. Pure.
[[nodiscard]] Prediction predict(const ResolvedJob& job, const Hardware& hardware);
/// Adds a warning, once, where the power limit of `gpu` is not held.
void warn_of_power_limit(const PowerRange& power, std::string_view gpu, ResolvedJob& job);
/// Its memory alone.
[[nodiscard]] MemoryPlan plan_memory(const ResolvedJob& job, const Hardware& hardware);
[[nodiscard]] bool fits_in_memory(const ResolvedJob& job, const Hardware& hardware);

/// The GPU held at the clocks asked for. Throws InputError: a clock or power limit that the board
/// would refuse.
[[nodiscard]] GpuSpec with_settings(GpuSpec gpu, const BoardSettings& settings);

/// Samples of one epoch: as asked for, else those of the data set that is loaded; nothing when none
/// is.
[[nodiscard]] std::optional<std::int64_t> epoch_samples(const ResolvedJob& job);
[[nodiscard]] std::optional<PrecisionMode> find_precision(std::string_view name);
/// The adapters that a job's words ask for. Throws InputError naming the flag.
[[nodiscard]] LowRankAdapters adapters_of(const Job& job);
/// What is assumed of them, one line.
[[nodiscard]] std::string describe(const LowRankAdapters& adapters);

}  // namespace tracecast
