#include "sim/cost/streaming.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/issue.hpp"

namespace tracecast::cost {

Roofs estimate_streaming(const Kernel& kernel, const StreamWork& work, const SustainedGpu& machine,
                         const GpuSpec& gpu, const CostProfile& profile) {
  const MemoryParameters& p = profile.memory;
  const double bytes = kernel.bytes().in_bytes();
  const double access = std::clamp(work.access_efficiency, 1.0 / 32, 1.0);
  const double transpose =
      kernel.kernel_class == KernelClass::Transpose ? p.transpose_efficiency : 1.0;
  const double slowdown =
      kernel.kernel_class == KernelClass::Convolution ? profile.convolution.transform_cost : 1.0;
  const double bandwidth = machine.stream.in_si() * access * transpose;
  // Plain code keeps no more of the lanes busy than the convolution kernels do.
  const double lanes =
      gpu.fp32_lanes_per_sm * issue_efficiency(gpu, best_issue_cycles(gpu, profile), profile);
  const double cycles =
      work.elements * slowdown * (1.0 / p.elements_per_clock + work.operations_per_element / lanes);
  Roofs parts;
  // Neighbouring windows share cells, and each reads them through L2; of rows that several windows
  // share, a part comes from memory again. Row overlap: the root of how often each cell is read.
  const double element = element_size(kernel.data).in_bytes();
  double again = 0;
  if (kernel.kernel_class == KernelClass::Pooling && kernel.pass == Pass::Forward) {
    const double cells_read = kernel.read.in_bytes() / element;
    const double reads_per_cell =
        std::max(1.0, work.elements * work.operations_per_element / std::max(cells_read, 1.0));
    again = p.window_overlap * (std::sqrt(reads_per_cell) - 1) * kernel.read.in_bytes();
  }
  parts.compute =
      Seconds((bytes + again) * miss_share(bytes, machine.l2_bytes, p.l2_share) / bandwidth);
  const double window_bytes = kernel.kernel_class == KernelClass::Pooling
                                  ? work.elements * work.operations_per_element * element
                                  : 0.0;
  parts.memory = Seconds(std::max(bytes, window_bytes) / machine.l2.in_si());
  Roofs roofs;
  roofs.memory = combine(parts);
  roofs.compute = Seconds(cycles / (machine.sm_count * machine.clock.in_si()));
  roofs.sm_share = share_with_blocks(work.elements, machine.sm_count);
  return roofs;
}

}  // namespace tracecast::cost
