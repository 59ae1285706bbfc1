#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/job/cluster.hpp"
#include "sim/job/mode/replicated_job.hpp"
#include "sim/job/parallelism.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/parallel/data_parallel.hpp"

namespace tracecast {

/// Ranks that compute alike.
struct RankGroup {
  std::string gpu;  ///< id
  double compute_time_factor = 1;
  std::uint32_t count = 0;
};

/// A job on all GPUs of a cluster.
struct ManyGpus {
  Fabric fabric;
  const StrategyProfile* strategy = nullptr;
  std::vector<RankGroup> groups;       ///< by kind of rank
  std::vector<std::uint32_t> kind_of;  ///< of each rank
  Prediction one_gpu;                  ///< of the first kind, alone, with its input
  DataParallelStep step;
  std::shared_ptr<const ReplicatedRun> process{};  ///< of all GPUs; nothing: they have one each
  /// What the loaders of a node do in this step, of one rank; `busy_threads` of all. Of a job that
  /// loads, each rank by itself.
  std::optional<InputUse> input{};
  MemoryPlan memory{};  ///< of the rank with the least headroom
  Interval step_time_s;
  Interval throughput_samples_per_s;  ///< over all GPUs
  double efficiency = 1;              ///< throughput over that of the GPUs each alone
};

/// Parts of a step by name, those that there are.
[[nodiscard]] std::vector<TimeShare> parts_of(const DataParallelStep& step);
/// GPU utilisation over all ranks, as nvidia-smi shows it.
[[nodiscard]] Range utilization_of_all(const ManyGpus& many);

/// What a faster step would need most: "communication" or what one GPU needs (Bottleneck).
[[nodiscard]] std::string_view bottleneck_of(const ManyGpus& many);
/// The strategy that the job's framework takes by default, or the one asked for. Throws InputError.
[[nodiscard]] const StrategyProfile& choose_strategy(const ResolvedJob& job,
                                                     const DataParallel& options,
                                                     const SpecLibrary& specs, bool several_nodes);

/// Every GPU of `fabric` with a batch of the job's. Adds to the job's assumptions what was chosen.
/// Throws InputError.
[[nodiscard]] ManyGpus predict_many(ResolvedJob& job, const Hardware& hardware, Fabric fabric,
                                    const DataParallel& options);

}  // namespace tracecast
