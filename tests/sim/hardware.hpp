#pragma once
#include <string_view>

#include "sim/network/fabric.hpp"

namespace tracecast::test {

/// The hardware of the binary.
struct Hardware {
  const SpecLibrary& specs = SpecLibrary::embedded();
  const GpuCatalog& gpus = specs.gpus();
  const CpuCatalog& cpus = specs.cpus();
  const LinkCatalog& links = specs.links();
  const MachineCatalog& machines = specs.machines();

  [[nodiscard]] Fabric build(const ClusterSpec& spec) const { return build_fabric(spec, specs); }
  [[nodiscard]] Fabric build(std::string_view machine, int gpus_each, int nodes = 1,
                             std::string_view gpu = "") const {
    return build(uniform_cluster(machine, gpus_each, nodes, gpu));
  }
};

}  // namespace tracecast::test
