#include "sim/job/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hwspecs/default_machine.hpp"
#include "hwspecs/slots.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/sha256.hpp"

namespace tracecast {
namespace {

constexpr std::uint64_t kMostClusterBytes = 1 << 20;
constexpr std::int64_t kMostNics = 1024;

void check_count(const char* flag, const std::optional<std::int64_t>& count) {
  if (!count || (*count >= 1 && *count <= kMostGpus)) return;
  throw InputError(flag, fmt::format("{}", *count), fmt::format("1 to {}", kMostGpus));
}

void check_board(const ClusterGroup& group, const Hardware& hardware) {
  if (group.gpu.empty()) return;  // that of the machine
  check_fits(hardware.gpus().find(group.gpu), hardware.machines().find(group.machine),
             hardware.gpus(), "group " + group.name);
}

Cluster from_file(const Place& o, const std::string& gpu, const Hardware& hardware) {
  const char* other = !o.machine.empty() ? "--machine"
                      : o.gpus           ? "--gpus"
                      : o.nodes          ? "--nodes"
                      : !o.nic.empty()   ? "--nic"
                      : o.no_p2p         ? "--no-p2p"
                                         : nullptr;
  if (other != nullptr) {
    throw InputError(other, "--cluster " + o.cluster + " beside it",
                     "one of the two: the file says which machines, GPUs and NICs there are");
  }
  const std::string text = read_file(o.cluster, kMostClusterBytes);
  ClusterSpec spec = load_cluster_spec(text, o.cluster);
  for (ClusterGroup& group : spec.groups) {
    if (group.gpu.empty()) group.gpu = gpu;
  }
  try {
    for (const ClusterGroup& group : spec.groups) check_board(group, hardware);
    return {
        build_fabric(spec, hardware.specs()), {}, InputRecord{"cluster", o.cluster, sha256(text)}};
  } catch (const InputError& error) {
    throw InputError(o.cluster, error);
  }
}

/// "ethernet_100g:1": the link that NICs have, and how many a node has; without a number as many as
/// its machine.
void set_nics(std::string_view text, ClusterNetwork& network, const Hardware& hardware) {
  const std::size_t colon = text.find(':');
  const LinkSpec* link = nullptr;
  try {
    link = &hardware.links().find(text.substr(0, colon));
  } catch (const InputError& error) {
    throw InputError("--nic", error);
  }
  if (link->kind != LinkKind::Ethernet && link->kind != LinkKind::Infiniband &&
      link->kind != LinkKind::Ipoib) {
    throw InputError("--nic", link->id,
                     "a network: Ethernet, RoCE, InfiniBand or IPoIB, such as ethernet_100g:1");
  }
  network.link = link->id;
  if (colon == std::string_view::npos) return;
  const auto count = parse_integer(text.substr(colon + 1));
  if (!count || *count < 1 || *count > kMostNics) {
    throw InputError("--nic", '"' + std::string(text) + '"',
                     fmt::format("LINK:COUNT with 1 to {} NICs of a node", kMostNics));
  }
  network.nics_per_node = static_cast<int>(*count);
}

Cluster from_flags(const Place& o, const std::string& word, const Hardware& hardware) {
  std::vector<std::string> assumptions;
  std::string gpu, id = o.machine;
  if (!word.empty()) {
    gpu = id.empty()
              ? hardware.gpus().find(word).id
              : take_board(word, hardware.machines().find(id), hardware.gpus(), "--gpu").gpu->id;
  }
  if (id.empty()) {
    if (gpu.empty()) throw InputError("--machine", "neither it nor --gpu", "one of the two");
    const std::int64_t in_all = o.gpus.value_or(1);
    const std::int64_t each = o.nodes ? (in_all + *o.nodes - 1) / *o.nodes : in_all;
    const DefaultMachine usual = hardware.specs().default_machine(
        hardware.gpus().find(gpu), static_cast<int>(std::min(each, kMostGpus)));
    id = usual.machine;
    assumptions.push_back(fmt::format("machine {}: {}", id, usual.reason));
  }
  const MachineSpec& machine = hardware.machines().find(id);
  const auto slots = static_cast<std::int64_t>(machine.nodes_of(NodeKind::Gpu).size());
  if (slots == 0) throw InputError("--machine", machine.id + ", which has no GPU slot", "one with");
  const std::int64_t nodes = o.nodes ? *o.nodes : (o.gpus.value_or(1) + slots - 1) / slots;
  const std::int64_t gpus = o.gpus ? *o.gpus : (o.nodes ? nodes * slots : 1);
  if (gpus % nodes != 0) {
    throw InputError("--gpus",
                     fmt::format("{} on {} nodes of {}, which has {} GPU{}", gpus, nodes,
                                 machine.id, slots, slots == 1 ? "" : "s"),
                     fmt::format("a multiple of {}; a cluster file can mix", nodes));
  }
  if (gpus / nodes > slots) {
    throw InputError(
        "--gpus",
        fmt::format("{} on {} node{} of {}", gpus, nodes, nodes == 1 ? "" : "s", machine.id),
        fmt::format("at most {}: each has {}", nodes * slots, slots));
  }
  if (!o.nodes && nodes > 1) {
    assumptions.push_back(
        fmt::format("{} nodes of {} GPU{} each", nodes, gpus / nodes, gpus == nodes ? "" : "s"));
  }
  if (o.nodes && machine.hosts > 1) {
    assumptions.push_back(fmt::format("a node of {} is a rack of {} hosts, {} GPU{} used in each",
                                      machine.id, machine.hosts, gpus / nodes,
                                      gpus == nodes ? "" : "s"));
  }
  ClusterSpec spec =
      uniform_cluster(machine.id, static_cast<int>(gpus / nodes), static_cast<int>(nodes), gpu);
  spec.no_p2p = o.no_p2p;
  if (o.no_p2p && gpus / nodes > 1) {
    assumptions.emplace_back(
        "--no-p2p: no GPU reaches another's memory; collectives and copies pass through the "
        "host's");
  }
  if (!o.nic.empty()) set_nics(o.nic, spec.network, hardware);
  if (!o.nic.empty() && nodes == 1) {
    assumptions.push_back(fmt::format("--nic {}: one node, which nothing leaves", o.nic));
  }
  return {build_fabric(spec, hardware.specs()), std::move(assumptions), std::nullopt};
}

}  // namespace

Cluster make_cluster(const Place& options, const std::string& gpu, const Hardware& hardware) {
  check_count("--gpus", options.gpus);
  check_count("--nodes", options.nodes);
  return options.cluster.empty() ? from_flags(options, gpu, hardware)
                                 : from_file(options, gpu, hardware);
}

}  // namespace tracecast
