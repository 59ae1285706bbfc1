#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/catalog.hpp"
#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

enum class NodeKind { Socket, PcieSwitch, Gpu, NvSwitch, Nic, Network };
[[nodiscard]] std::string_view to_string(NodeKind kind);

struct MachineNode {
  std::string name;  ///< "cpu0", "gpu3"
  NodeKind kind{};
};
/// `count` parallel links of one kind between two nodes.
struct MachineLink {
  std::uint32_t a = 0, b = 0;  ///< indices into MachineSpec::nodes
  std::string link;            ///< id of a LinkSpec
  int count = 1;
};
struct MachineDisk {
  std::string disk;  ///< id of a DiskSpec
  int count = 1;     ///< striped
};

/// Public facts about one machine: what is in it and how it is wired. A MachineSpec that exists is
/// valid: its links join nodes that exist, every GPU reaches a socket, there are as many socket
/// nodes as sockets, and hosts have equal parts.
struct MachineSpec : SpecIdentity {
  std::string cpu;  ///< id of a CpuSpec
  int sockets = 1;
  int hardware_threads = 0;  ///< that programs see
  Bytes memory{};            ///< of all hosts
  /// Operating systems that it boots, each with an even part of sockets, threads, memory and GPUs:
  /// 18 in a rack of 18 compute trays.
  int hosts = 1;
  std::optional<FormFactor> slot;  ///< see slot_forms (hwspecs/slots.hpp)
  std::vector<std::string>
      gpus;  ///< ids it comes with, the usual one first; empty: its slots take any
  std::vector<MachineDisk> disks;
  std::vector<MachineNode> nodes;
  std::vector<MachineLink> links;

  /// Nodes of a kind, in file order; the GPU nodes are the slots.
  [[nodiscard]] std::vector<std::uint32_t> nodes_of(NodeKind kind) const;
  /// GPU slots, processors and memory of each host.
  [[nodiscard]] std::size_t slots_of_host() const;
  [[nodiscard]] int sockets_of_host() const { return sockets / hosts; }
  [[nodiscard]] Bytes memory_of_host() const { return memory / hosts; }
  /// Links between two nodes, parallel ones counted.
  [[nodiscard]] int links_between(std::uint32_t a, std::uint32_t b) const;
  /// The links that data takes from `gpu` (a node) to the socket nearest by hops; it passes PCIe
  /// switches only. Of equally near sockets the first in the file. Empty only if `gpu` is no GPU
  /// node.
  [[nodiscard]] std::vector<const MachineLink*> path_to_socket(std::uint32_t gpu) const;
};

/// Reads and checks one spec in text format (hwspecs/proto/machine_spec.proto). `where` names it in
/// errors; whether the ids in it exist is the caller's to check. Throws InputError with line or
/// field: bad syntax, a missing value, a value without a source or with an unknown one, out of
/// range, a link to no node, to its own node or twice, a node twice, a GPU without a way to a
/// socket.
[[nodiscard]] MachineSpec load_machine_spec(std::string_view text, std::string_view where);

using MachineCatalog = Catalog<MachineSpec>;

}  // namespace tracecast
