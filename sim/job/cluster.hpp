#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/job/hardware.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {

inline constexpr std::int64_t kMostGpus = 1'000'000;

/// What several GPUs stand in.
struct Cluster {
  Fabric fabric;
  std::vector<std::string> assumptions;  ///< what was chosen for the user, one line each
  std::optional<InputRecord> file;
};

/// Machines with GPUs of one kind, or what a cluster file says, in which groups that name no GPU
/// have `gpu` (empty: that of their machine). Of `place`: machine, gpus, nodes, cluster, nic and
/// no_p2p. Without nodes as few machines as hold the GPUs; without gpus one, or all of the nodes.
/// Throws InputError naming the flag or the file.
[[nodiscard]] Cluster make_cluster(const Place& place, const std::string& gpu,
                                   const Hardware& hardware);

}  // namespace tracecast
