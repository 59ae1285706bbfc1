#include "sim/cluster/fabric.hpp"

#include <doctest/doctest.h>

#include "sim/cluster/collective.hpp"

using namespace tracecast;

namespace {
struct Hardware {
  GpuCatalog gpus = GpuCatalog::embedded();
  CpuCatalog cpus = CpuCatalog::embedded();
  LinkCatalog links = LinkCatalog::embedded();
  MachineCatalog machines = MachineCatalog::embedded();
  [[nodiscard]] Fabric build(const ClusterSpec& spec) const {
    return build_fabric(spec, {gpus, cpus, links, machines});
  }
};
}  // namespace

TEST_SUITE("sim/cluster/fabric") {
  TEST_CASE("every machine's GPUs reach each other, and two of a kind with a network do too") {
    const Hardware hardware;
    for (const MachineSpec& machine : hardware.machines.all()) {
      CAPTURE(machine.id);
      const int slots = static_cast<int>(machine.nodes_of(NodeKind::Gpu).size());
      if (slots == 0) continue;
      const int nodes = machine.nodes_of(NodeKind::Network).empty() ? 1 : 2;
      const Fabric fabric = hardware.build(uniform_cluster(
          machine.id, slots, nodes, machine.gpus.empty() ? "v100_pcie_16gb" : machine.gpus[0]));
      REQUIRE(fabric.num_ranks() == static_cast<std::uint32_t>(slots * nodes));
      for (const Rank a : all_ranks(fabric)) {
        for (const Rank b : all_ranks(fabric)) {
          const Route route = fabric.route(a, b);
          CHECK(route.links.empty() == (a == b));
          CHECK((route.kind == RouteKind::Network) == (fabric.node_of(a) != fabric.node_of(b)));
        }
      }
    }
  }
}
