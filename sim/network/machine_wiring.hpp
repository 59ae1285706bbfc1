#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/network/fabric.hpp"

namespace tracecast {

/// A way through one machine; links are indices into MachineWiring::links.
struct LocalPath {
  std::vector<std::uint32_t> links;
  RouteKind kind = RouteKind::Self;
  bool is_staged = false;
};

/// One kind of node with all ways through it: what every node of a group has alike. Private to
/// fabric.cpp.
struct MachineWiring {
  MachineSpec machine;
  std::uint32_t num_slots = 0;  ///< that take part: the first ones
  /// 2 i and 2 i + 1: the two directions of machine.links[i]; after them, one per socket: its
  /// memory.
  std::vector<FabricLink> links;
  std::vector<std::string> link_names;

  std::vector<LocalPath> gpu_to_gpu;  ///< from * num_slots + to
  std::vector<int> bricks;            ///< alike: NVLinks straight from one to the other
  std::vector<int> switch_bricks;     ///< by slot: NVLinks into NVSwitches
  std::vector<LocalPath> gpu_to_host, host_to_gpu;  ///< by slot
  struct Port {
    std::string link;                ///< id of what joins the NIC and its network
    int count = 1;                   ///< of such links
    BytesPerSecond line_rate{};      ///< of one
    std::uint32_t up = 0, down = 0;  ///< links to the network and from it
    LocalPath from_host,
        to_host;  ///< between the nearest socket's memory and the NIC, and `up` or `down`
  };
  std::vector<Port> ports;                          ///< one per NIC that has a network
  std::vector<std::uint32_t> port_of;               ///< by slot
  std::vector<LocalPath> gpu_to_port, port_to_gpu;  ///< by slot, network link included
};

/// Finds all ways. Of `cluster`: the network's link and NICs, and whether GPUs reach each other.
/// Throws InputError: an unknown link or CPU, a slow link that joins nothing, more GPUs than slots.
[[nodiscard]] MachineWiring wire_machine(const MachineSpec& machine, const ClusterGroup& group,
                                         const GpuSpec& gpu, const ClusterSpec& cluster,
                                         const SpecLibrary& specs);

}  // namespace tracecast
