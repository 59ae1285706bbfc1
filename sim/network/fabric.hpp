#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/cluster_spec.hpp"
#include "hwspecs/library.hpp"
#include "sim/base/ids.hpp"

namespace tracecast {

/// A GPU that takes part, numbered node by node in the order of the cluster file, then by slot.
using Rank = Id<struct RankTag>;
using FabricNodeId = Id<struct FabricNodeTag>;
using FabricLinkId = Id<struct FabricLinkTag>;

enum class FabricLinkKind {
  Pcie,
  Nvlink,
  Socket,      ///< between CPU packages
  Ethernet,    ///< of a NIC
  Infiniband,  ///< of a NIC
  Ipoib,       ///< of a NIC
  C2c,         ///< between a GPU and the CPU of its superchip
  Uplink,      ///< from a leaf switch to the spine or back, all of them as one
  HostMemory,  ///< of one CPU package; both directions share it
};
[[nodiscard]] std::string_view to_string(FabricLinkKind kind);

/// Threads that serve the sockets of a NIC in one direction, where the kernel's TCP carries what
/// goes over it.
struct SocketThreads {
  BytesPerSecond line_rate{};  ///< of the NIC
  BytesPerSecond each{};       ///< what one thread moves; zero: no thread touches the bytes
  int most = 0;                ///< that the host has for it

  [[nodiscard]] bool are_needed() const { return each > BytesPerSecond(0); }
};

/// One direction of what joins two nodes of the graph, parallel links as one.
struct FabricLink {
  BytesPerSecond bandwidth{};  ///< of payload: count * bandwidth * efficiency of the LinkSpec
  Seconds latency{};
  FabricLinkKind kind{};
  SocketThreads sockets{};  ///< of a NIC's link to its network
};

/// NICs of one kind in nodes that are alike.
struct NodeNics {
  std::uint32_t nodes = 0;
  int per_node = 0;
  std::string link;            ///< id of a LinkSpec
  BytesPerSecond line_rate{};  ///< of one of them
};

/// The farthest thing that a route crosses, near to far.
enum class RouteKind {
  Self,
  Nvlink,      ///< NVLink and NVSwitches alone
  PcieSwitch,  ///< PCIe switches below one root port
  HostBridge,  ///< the root complex of one CPU package
  Socket,      ///< from one CPU package to another
  Network,     ///< NICs
};
[[nodiscard]] std::string_view to_string(RouteKind kind);

struct Route {
  std::vector<FabricLinkId> links;  ///< in the order in which data takes them
  Seconds latency{};                ///< sum of theirs
  RouteKind kind = RouteKind::Self;
  /// Data is written to host memory and read from there: the GPUs cannot reach each other.
  bool is_staged = false;
};

/// Machines and their network as directed links, and the way from each GPU to each other.
/// Immutable; copies share the tables (routes within a machine are found once per kind of node, not
/// once per pair of ranks).
class Fabric {
 public:
  [[nodiscard]] std::uint32_t num_ranks() const;
  [[nodiscard]] std::uint32_t num_nodes() const;
  [[nodiscard]] FabricNodeId node_of(Rank rank) const;
  /// Which GPU of its machine, 0 first.
  [[nodiscard]] std::uint32_t slot_of(Rank rank) const;
  /// First rank of a node and how many it has; they are consecutive.
  [[nodiscard]] Rank first_rank(FabricNodeId node) const;
  [[nodiscard]] std::uint32_t ranks_of(FabricNodeId node) const;
  /// The most of them that share an operating system: a compute tray's, where the node is a rack of
  /// them.
  [[nodiscard]] std::uint32_t ranks_of_host(FabricNodeId node) const;

  [[nodiscard]] const GpuSpec& gpu_of(Rank rank) const;
  [[nodiscard]] const MachineSpec& machine_of(FabricNodeId node) const;
  [[nodiscard]] const ClusterGroup& group_of(FabricNodeId node) const;
  [[nodiscard]] const ClusterSpec& spec() const;
  /// What its parts were looked up in.
  [[nodiscard]] const SpecLibrary& specs() const;

  /// Links are numbered node by node, alike in nodes of a group; those between switches come last.
  [[nodiscard]] std::uint32_t num_links() const;
  [[nodiscard]] FabricLinkId first_link(FabricNodeId node) const;
  [[nodiscard]] std::uint32_t links_of(FabricNodeId node) const;
  [[nodiscard]] const FabricLink& link(FabricLinkId id) const;
  /// "node 3: gpu0 > plx0".
  [[nodiscard]] std::string name_of(FabricLinkId id) const;

  /// From GPU to GPU. Within a node: over NVLink alone if there is such a way, else over PCIe, else
  /// through host memory where the cards have no peer access. Between nodes: over the NIC nearest
  /// to each.
  [[nodiscard]] Route route(Rank from, Rank to) const;
  /// Parallel NVLinks straight from GPU to GPU; 0 when there is none.
  [[nodiscard]] int bricks_between(Rank a, Rank b) const;
  /// Two GPUs of a node that reach each other through NVSwitches.
  [[nodiscard]] bool is_switched(Rank a, Rank b) const;
  /// NVLinks of a GPU into NVSwitches.
  [[nodiscard]] int switch_bricks(Rank rank) const;
  /// The NIC nearest to a GPU, in the order of the machine file. Only where there is a network.
  [[nodiscard]] std::uint32_t port_of(Rank rank) const;
  /// From that NIC to its switch.
  [[nodiscard]] FabricLinkId network_link(Rank rank) const;
  /// What joins the nodes, group by group; empty where there is one node.
  [[nodiscard]] std::vector<NodeNics> nics() const;

  /// Between a GPU and the memory of the CPU package nearest to it.
  [[nodiscard]] Route route_to_host(Rank from) const;
  [[nodiscard]] Route route_from_host(Rank to) const;
  /// From host memory to host memory: a parameter server's way. `rail`: which NIC, in the order of
  /// the machine file; taken modulo their number.
  [[nodiscard]] Route route_between_hosts(FabricNodeId from, FabricNodeId to,
                                          std::uint32_t rail = 0) const;

 private:
  friend Fabric build_fabric(const ClusterSpec& spec, const SpecLibrary& specs);
  struct State;
  explicit Fabric(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

/// Throws InputError: an id that is not known, more GPUs than the machine has slots, several nodes
/// of which one has no NIC, no rank at all, more than a million ranks.
[[nodiscard]] Fabric build_fabric(const ClusterSpec& spec, const SpecLibrary& specs);

/// `count` nodes of one machine with `gpus` GPUs each, on one switch.
[[nodiscard]] ClusterSpec uniform_cluster(std::string_view machine, int gpus, int count = 1,
                                          std::string_view gpu = "");

}  // namespace tracecast
