#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

/// Links of a node that are slower than their spec says: those that join `a` and `b`, both
/// directions.
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
  Seconds start_jitter{};   ///< its ranks begin at a uniform random moment in [0, start_jitter)
  std::string switch_name;  ///< that its NICs are plugged into; empty without switches
};

/// A switch of a drawn network; it carries what its links carry.
struct ClusterSwitch {
  std::string name;
  std::string parent;  ///< empty: the root
  std::string link;    ///< id of a LinkSpec: to the parent
  int count = 1;       ///< parallel ones
};

/// What joins the nodes. Each NIC of a machine is plugged into a leaf switch.
struct ClusterNetwork {
  std::string link;  ///< id of a LinkSpec that every NIC has instead of its machine's; empty: as
                     ///< the machines say
  /// Links to the network of each operating system, over the machine's NICs as evenly as they
  /// divide; nothing: as its machine has.
  std::optional<int> nics_per_node{};
  int nodes_per_leaf = 0;       ///< 0: one switch that carries every pair at full rate
  double oversubscription = 1;  ///< bandwidth of a leaf's NICs over that of its uplinks
  bool rail_optimized = false;  ///< NIC k of every node of a leaf group is on leaf k of the group
  std::vector<ClusterSwitch> switches;  ///< a tree; empty: as the values before say
};

/// How often nodes fail and what that costs.
struct ClusterFailures {
  Seconds node_mtbf{};         ///< mean time between failures of one node
  Seconds checkpoint_write{};  ///< the step stands still for it
  Seconds restart{};           ///< from failure to the first step after it
};

/// Machines and the network between them. One that was loaded is valid: names are there and unique,
/// numbers in range, switches form one tree that every group is plugged into. Whether the ids in it
/// exist is checked where a Fabric is built.
struct ClusterSpec {
  std::string id, name;
  std::vector<ClusterGroup> groups;
  ClusterNetwork network;
  std::optional<ClusterFailures> failures;
  bool no_p2p = false;  ///< no GPU reaches another's memory, by PCIe or NVLink
};

/// Reads and checks one cluster in text format (hwspecs/proto/cluster_spec.proto). `where` names it
/// in errors. Throws InputError with line: bad syntax, no group, a group without name or machine or
/// with a name given twice, counts below 1 or absurd, factors out of range, switches that are not
/// one tree, a group on no switch, leaves and drawn switches at once.
[[nodiscard]] ClusterSpec load_cluster_spec(std::string_view text, std::string_view where);

}  // namespace tracecast
