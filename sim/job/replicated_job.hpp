#pragma once
#include <string>
#include <vector>

#include "sim/cluster/driver_calls.hpp"
#include "sim/cluster/replicas.hpp"
#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// A job that one process runs on all GPUs of a box, its kernels on each of them (sim/cluster/replicas).
struct ReplicatedJob {
  ReplicatedTimeline timeline;
  std::vector<DeviceTime> times;              ///< greatest first
  Prediction replica;                         ///< of one GPU with its part of the batch
  DriverCalls calls;                          ///< of the allocator of one of the other GPUs
  [[nodiscard]] Seconds device_time() const;  ///< of all GPUs together
};

/// Whether the strategy and the fabric are such that run_replicated() tells what each GPU does.
[[nodiscard]] bool runs_replicated(const ResolvedJob& job, const StrategyProfile& strategy,
                                   const Fabric& fabric);

/// `job`: with the batch of one GPU. The loader feeds the process as its machine's CPUs allow.
[[nodiscard]] ReplicatedJob run_replicated(const ResolvedJob& job, const StrategyProfile& strategy,
                                           const Fabric& fabric, const Hardware& hardware);

/// "convolution, winograd_fused", "max pool, backward", "broadcast".
[[nodiscard]] std::string device_work_name(const DeviceTime& time);

}  // namespace tracecast
