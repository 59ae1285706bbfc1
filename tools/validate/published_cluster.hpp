#pragma once
#include <cstdint>
#include <string>

#include "hwspecs/cluster_spec.hpp"
#include "hwspecs/software/strategy_profile.hpp"
#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// What a row of a table says of the GPUs it was measured on.
struct PublishedCluster {
  std::string gpu;  ///< as the row spells it
  std::int64_t gpus = 1, nodes = 1;
  std::string description;  ///< its words about machine, network and software
};

/// How many machines are meant by `nodes`: sources call a rack's compute trays nodes, and as few
/// racks are taken as hold the GPUs.
[[nodiscard]] std::int64_t machines_of(std::int64_t gpus, std::int64_t nodes,
                                       const MachineSpec& machine);

/// The machine whose name or alias stands in the description, comes with the GPU and has slots
/// enough, else the usual one; nodes with one GPU more or fewer when their number does not divide
/// that of the GPUs; NICs of the link that the description names by one of its words ("10GbE", "25
/// Gbit/s", "EDR": SpecLibrary::find_link_in), else the machine's. Throws InputError.
[[nodiscard]] ClusterSpec read_published_cluster(const PublishedCluster& row,
                                                 const Hardware& hardware);

}  // namespace tracecast
