#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/job/channel.hpp"
#include "sim/job/parallelism.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/parallel/parameter_server.hpp"

namespace tracecast {

/// A job on the workers of a cluster.
struct ServerPrediction {
  Fabric fabric;
  ParameterServers options;  ///< nothing left out
  ChannelPath channel;
  Prediction one_gpu;  ///< of the first worker, alone
  ParameterServerStep step;
  PowerRange
      power;  ///< of the mean worker's board; those of servers compute nothing and are left out
  Interval step_time_s;
  Interval throughput_samples_per_s;  ///< over all workers
  double efficiency = 1;              ///< throughput over that of the workers each alone
};

/// The nodes of the fabric are `servers` servers, then workers: each of their GPUs has a batch of
/// the job's. Throws InputError: no node left for workers, several kinds of GPU, a phase without
/// updates, an unknown channel.
[[nodiscard]] ServerPrediction predict_with_servers(const ResolvedJob& job,
                                                    const Hardware& hardware, Fabric fabric,
                                                    const ParameterServers& options);

/// Share of the time in which a worker's GPU computes.
[[nodiscard]] double computing_share(const ServerPrediction& prediction);
/// What predict_with_servers() takes where `options` leave it out, one line each.
[[nodiscard]] std::vector<std::string> usual_of(const ParameterServers& options,
                                                const ResolvedJob& job);

}  // namespace tracecast
