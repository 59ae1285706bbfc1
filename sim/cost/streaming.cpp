#include "sim/cost/streaming.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/issue.hpp"

namespace tracecast::cost {
namespace {

/// SM cycles of one element, all schedulers at work.
double cycles_per_element(const Kernel& kernel, const StreamWork& work, const GpuSpec& gpu,
                          const CostProfile& profile) {
  constexpr double kWarp = 32;
  // What a window costs besides its cells: its place, its bounds, the result. Source:
  // data/kernels/pooling.csv, windows of 4 cells against those of 9.
  constexpr double kWindowInCells = 2.5;
  const MemoryParameters& p = profile.memory;
  const double issued = kWarp * std::max(1, gpu.warp_schedulers_per_sm);
  const double fixed = 1.0 / p.elements_per_clock + work.instructions_per_element / issued;
  if (kernel.kernel_class == KernelClass::Pooling && kernel.pass == Pass::Forward) {
    return fixed + p.window_instructions * (work.operations_per_element + kWindowInCells) / issued;
  }
  // Plain code keeps no more of the lanes busy than the convolution kernels do.
  const double lanes =
      gpu.fp32_lanes_per_sm * issue_efficiency(gpu, best_issue_cycles(gpu, profile), profile);
  return fixed + work.operations_per_element / lanes;
}

/// How long slices of L2 take for atomic additions.
Seconds addition_time(const Kernel& kernel, const StreamWork& work, const SustainedGpu& machine,
                      const GpuSpec& gpu, const CostProfile& profile) {
  if (!(work.additions > 0)) return Seconds(0);
  constexpr double kLine = 128;
  const double slice = (gpu.architecture >= Architecture::Ampere ? 512.0 : 96.0) * 1024;
  const double slices = std::max(1.0, gpu.l2.in_bytes() / slice);
  const double threads = static_cast<double>(gpu.sm_count) * gpu.max_threads_per_sm;
  const double at_once = kernel.written.in_bytes() * std::min(1.0, threads / work.elements);
  const double lines = std::max(1.0, at_once / kLine);
  const double mean = lines / slices;
  const double fullest = std::max(1.0, mean + std::sqrt(2 * mean * std::log(slices)));
  return Seconds(work.additions * fullest / lines * profile.recorded.addition_cycles /
                 machine.free_clock.in_si());
}

}  // namespace

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
  Roofs parts;
  parts.compute = Seconds(bytes * miss_share(bytes, machine.l2_bytes, p.l2_share) / bandwidth);
  parts.memory = Seconds(bytes / machine.l2.in_si());
  Roofs roofs;
  roofs.memory = combine(
      {.compute = addition_time(kernel, work, machine, gpu, profile), .memory = combine(parts)});
  roofs.compute =
      Seconds(work.elements * slowdown * cycles_per_element(kernel, work, gpu, profile) /
              (machine.sm_count * machine.free_clock.in_si()));
  roofs.sm_share = share_with_blocks(work.elements, machine.sm_count);
  return roofs;
}

}  // namespace tracecast::cost
