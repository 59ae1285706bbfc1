#pragma once
#include <optional>
#include <string>
#include <vector>

#include "sim/job/resolved_job.hpp"
#include "sim/parallel/replicas.hpp"
#include "sim/step/driver_calls.hpp"

namespace tracecast {

/// A job that one process runs on all GPUs of a box, its kernels on each of them
/// (sim/parallel/replicas).
struct ReplicatedRun {
  ReplicatedTimeline timeline;                    ///< with several micro-batches, of the last one
  std::optional<ReplicatedTimeline> micro_batch;  ///< of each before it
  DataParallelStep step;                          ///< all of them
  std::vector<DeviceTime> times;                  ///< likewise; greatest first
  std::size_t launches = 0;                       ///< of all of them, as the next two
  Seconds launching{}, waiting{};
  Prediction replica;                         ///< of one GPU with its part of the batch
  [[nodiscard]] Seconds device_time() const;  ///< of all GPUs together
};

/// How the run is made; as in DataParallelRequest.
struct ReplicatedOptions {
  double sample_sd = 0;
  bool fold = true;
};

/// `job`: with the batch of one GPU. The loader feeds the process as its machine's CPUs allow.
/// Throws InputError: GPUs of several nodes, or none but one.
[[nodiscard]] ReplicatedRun run_replicated_job(const ResolvedJob& job,
                                               const StrategyProfile& strategy,
                                               const Fabric& fabric, const Hardware& hardware,
                                               const ReplicatedOptions& options = {});
/// Calls of the allocator of one of the other GPUs.
[[nodiscard]] DriverCalls driver_calls_of(const ResolvedJob& job, const ReplicatedRun& run,
                                          const Hardware& hardware);

/// "convolution, winograd_fused", "max pool, backward", "broadcast".
[[nodiscard]] std::string device_work_name(const DeviceTime& time);

}  // namespace tracecast
