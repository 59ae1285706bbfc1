#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/fabric.hpp"
#include "tools/job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// What several GPUs stand in, as flags say it.
struct ClusterOptions {
  std::string machine;               ///< `--machine`; empty: a usual one for the GPU
  std::string file;                  ///< `--cluster`; instead of the others
  std::optional<std::int64_t> gpus;  ///< `--gpus`, in total
  std::optional<std::int64_t> nodes;
};

struct Cluster {
  Fabric fabric;
  std::vector<std::string> assumptions;  ///< what was chosen for the user, one line each
  std::optional<InputRecord> file;
};

/// Declares `--gpus`, `--nodes` and `--cluster`; `--machine` is the verb's own.
void add_cluster_options(CLI::App& verb, ClusterOptions& options);

/// Machines with GPUs of one kind, or what a cluster file says, in which groups that name no GPU have `gpu` (empty: that of
/// their machine). Without `--nodes` as few machines as hold the GPUs; without `--gpus` one, or all of the nodes.
/// Throws InputError naming the flag or the file.
[[nodiscard]] Cluster make_cluster(const ClusterOptions& options, const std::string& gpu,
                                   const Sources& sources);

}  // namespace tracecast
