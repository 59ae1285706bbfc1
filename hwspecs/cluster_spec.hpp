#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hwspecs/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Links of a node that are slower than their spec says: those that join `a` and `b`, both directions.
struct SlowLink {
  std::string a, b;             ///< names of two nodes of the machine's graph
  double bandwidth_factor = 1;  ///< in (0, 1]
};

/// Nodes that are alike.
struct ClusterGroup {
  std::string name;
  int count = 1;
  std::string machine;      ///< id of a MachineSpec
  std::optional<int> gpus;  ///< of each node that take part; nothing: all slots
  std::string gpu;          ///< id of a GpuSpec; empty: the one the machine comes with
  /// Every kernel takes so many times its time; 1 = healthy, 1.3 = a third slower.
  double compute_time_factor = 1;
  std::vector<SlowLink> slow_links;
  Seconds start_jitter{};  ///< its ranks begin at a uniform random moment in [0, start_jitter)
};

/// What joins the nodes. Each NIC of a machine is plugged into a leaf switch.
struct ClusterNetwork {
  std::string
      link;  ///< id of a LinkSpec that every NIC has instead of its machine's; empty: as the machines say
  int nodes_per_leaf = 0;       ///< 0: one switch that carries every pair at full rate
  double oversubscription = 1;  ///< bandwidth of a leaf's NICs over that of its uplinks
  bool rail_optimized = false;  ///< NIC k of every node of a leaf group is on leaf k of the group
};

/// How often nodes fail and what that costs.
struct ClusterFailures {
  Seconds node_mtbf{};         ///< mean time between failures of one node
  Seconds checkpoint_write{};  ///< the step stands still for it
  Seconds restart{};           ///< from failure to the first step after it
};

/// Machines and the network between them. Free of cycles and checked by its loader; whether the ids in it exist is
/// checked where a Fabric is built.
struct ClusterSpec : SpecIdentity {
  std::vector<ClusterGroup> groups;
  ClusterNetwork network;
  std::optional<ClusterFailures> failures;
};

}  // namespace tracecast
