#pragma once
#include <cstdint>
#include <string>

#include "sim/cluster/parameter_server.hpp"
#include "sim/job/channel.hpp"
#include "sim/job/parallelism.hpp"
#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// A job on the workers of a cluster.
struct ServerPrediction {
  Fabric fabric;
  ParameterServers options;
  ChannelPath channel;
  Prediction one_gpu;  ///< of the first worker, alone
  ParameterServerStep step;
  Interval step_time_s;
  Interval throughput_samples_per_s;  ///< over all workers
  double efficiency = 1;              ///< throughput over that of the workers each alone
};

/// The nodes of the fabric are `servers` servers, then workers: each of their GPUs has a batch of the job's. Throws
/// InputError: no node left for workers, several kinds of GPU, a phase without updates, an unknown channel.
[[nodiscard]] ServerPrediction predict_with_servers(const ResolvedJob& job,
                                                    const Hardware& hardware, Fabric fabric,
                                                    const ParameterServers& options);

}  // namespace tracecast
