#pragma once
#include <cstdint>
#include <string>

#include "sim/cluster/parameter_server.hpp"
#include "tools/channel_options.hpp"
#include "tools/job.hpp"

namespace tracecast {

/// Workers and servers on machines of a cluster, as flags say it.
struct ServerOptions {
  std::int64_t servers = 1;  ///< of the nodes
  std::string channel = "grpc";
  std::string link;                 ///< network instead of the machine's; empty: its own
  std::string placement = "bytes";  ///< or "round_robin"
  std::string device = "cpu";       ///< that holds the variables; or "gpu"
  bool asynchronous = false;
  Seconds feeding{};  ///< of each step, before a worker asks for anything
};

/// A job on the workers of a cluster.
struct ServerPrediction {
  Fabric fabric;
  ServerOptions options;
  ChannelPath channel;
  Prediction one_gpu;  ///< of the first worker, alone
  ParameterServerStep step;
  Interval step_time_s;
  Interval throughput_samples_per_s;  ///< over all workers
  double efficiency = 1;              ///< throughput over that of the workers each alone
};

/// The nodes of the fabric are `servers` servers, then workers: each of their GPUs has a batch of the job's. Throws
/// InputError: no node left for workers, several kinds of GPU, a phase without updates, an unknown channel.
[[nodiscard]] ServerPrediction predict_with_servers(const Job& job, const Sources& sources,
                                                    Fabric fabric, const ServerOptions& options);

}  // namespace tracecast
