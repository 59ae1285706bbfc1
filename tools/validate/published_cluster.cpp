#include "tools/validate/published_cluster.hpp"

#include <algorithm>
#include <utility>

#include "hwspecs/library.hpp"
#include "hwspecs/slots.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {
namespace {

/// Of the machines that come with the GPU, the one with the longest name in the text.
const MachineSpec* find_machine_in(const std::string& lower, const GpuSpec& gpu, std::size_t slots,
                                   const MachineCatalog& machines) {
  const MachineSpec* found = nullptr;
  std::size_t longest = 3;
  for (const MachineSpec& machine : machines.all()) {
    if (!comes_with(machine, gpu) || machine.nodes_of(NodeKind::Gpu).size() < slots) continue;
    std::vector<std::string> names = machine.aliases;
    names.push_back(machine.name);
    names.push_back(machine.id);
    for (const std::string& name : names) {
      if (name.size() > longest && lower.find(to_lower(name)) != std::string::npos) {
        longest = name.size();
        found = &machine;
      }
    }
  }
  return found;
}

bool has_nic(const MachineSpec& machine) { return !machine.nodes_of(NodeKind::Nic).empty(); }

}  // namespace

std::int64_t machines_of(std::int64_t gpus, std::int64_t nodes, const MachineSpec& machine) {
  if (machine.hosts == 1) return nodes;
  const auto slots = static_cast<std::int64_t>(machine.nodes_of(NodeKind::Gpu).size());
  return (gpus + slots - 1) / slots;
}

ClusterSpec read_published_cluster(const PublishedCluster& row, const Hardware& hardware) {
  if (row.gpus < row.nodes) {
    throw InputError("gpus", std::to_string(row.gpus) + " on " + std::to_string(row.nodes),
                     "at least one for each node");
  }
  const GpuSpec& gpu = hardware.gpus().find(row.gpu);
  const std::int64_t most = (row.gpus + row.nodes - 1) / row.nodes;
  const MachineSpec* machine = find_machine_in(to_lower(row.description), gpu,
                                               static_cast<std::size_t>(most), hardware.machines());
  if (machine == nullptr) {
    machine = &hardware.machines().find(
        hardware.specs()
            .default_machine(gpu, static_cast<int>(std::min<std::int64_t>(most, 1 << 20)))
            .machine);
  }
  const std::int64_t nodes = machines_of(row.gpus, row.nodes, *machine);
  const std::int64_t fewer = row.gpus / nodes, with_more = row.gpus % nodes;
  ClusterSpec spec = uniform_cluster(machine->id, static_cast<int>(fewer),
                                     static_cast<int>(nodes - with_more), gpu.id);
  if (with_more > 0) {
    spec.groups.push_back(spec.groups.front());
    spec.groups.back().name += " with one more";
    spec.groups.back().count = static_cast<int>(with_more);
    spec.groups.back().gpus = static_cast<int>(fewer + 1);
  }
  if (nodes > 1) {
    if (!has_nic(*machine)) {
      throw InputError("machine", machine->id + ", which has no NIC",
                       "one with, for several nodes");
    }
    const LinkSpec* link = hardware.specs().find_link_in(row.description);
    if (link != nullptr) spec.network.link = link->id;
  }
  return spec;
}

}  // namespace tracecast
