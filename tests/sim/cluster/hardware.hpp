#pragma once
#include <string_view>

#include "sim/cluster/fabric.hpp"

namespace tracecast::test {

/// The hardware of the binary.
struct Hardware {
  GpuCatalog gpus = GpuCatalog::embedded();
  CpuCatalog cpus = CpuCatalog::embedded();
  LinkCatalog links = LinkCatalog::embedded();
  MachineCatalog machines = MachineCatalog::embedded();

  [[nodiscard]] FabricCatalogs catalogs() const { return {gpus, cpus, links, machines}; }
  [[nodiscard]] Fabric build(const ClusterSpec& spec) const {
    return build_fabric(spec, catalogs());
  }
  [[nodiscard]] Fabric build(std::string_view machine, int gpus_each, int nodes = 1,
                             std::string_view gpu = "") const {
    return build(uniform_cluster(machine, gpus_each, nodes, gpu));
  }
};

}  // namespace tracecast::test
