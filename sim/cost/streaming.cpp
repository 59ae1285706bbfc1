#include "sim/cost/streaming.hpp"

#include <algorithm>

namespace tracecast::cost {

Roofs estimate_streaming(const Kernel& kernel, const StreamWork& work, const SustainedGpu& machine,
                         const GpuSpec& gpu, const CostProfile& profile) {
  const MemoryParameters& p = profile.memory;
  const double bytes = kernel.bytes().in_bytes();
  const double access = std::clamp(work.access_efficiency, 1.0 / 32, 1.0);
  const double transform = kernel.kernel_class == KernelClass::Transpose ||
                                   kernel.kernel_class == KernelClass::Convolution
                               ? p.transform_efficiency
                               : 1.0;
  const double bandwidth =
      machine.dram.in_si() * p.efficiency[gpu.architecture] * access * transform;
  const double issue = machine.sm_count * p.elements_per_clock * machine.clock.in_si();
  Roofs parts;
  parts.compute = Seconds(bytes * miss_share(bytes, machine.l2_bytes, p.l2_share) / bandwidth);
  parts.memory = Seconds(bytes / machine.l2.in_si());
  Roofs roofs;
  roofs.memory = combine(parts);
  roofs.compute = Seconds(work.elements * std::max(1.0, work.operations_per_element) / issue);
  return roofs;
}

}  // namespace tracecast::cost
