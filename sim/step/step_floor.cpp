#include "sim/step/step_floor.hpp"

#include <algorithm>

namespace tracecast {
namespace {

StepFloor floor_of(const Candidate& candidate, const GpuSpec& gpu) {
  StepFloor floor;
  for (const Kernel& kernel : candidate.kernels) {
    const FlopsPerSecond peak = gpu.find_peak(kernel.math, kernel.unit).value_or(gpu.peak_fp32());
    const Seconds arithmetic = kernel.flops / peak;
    const Seconds traffic =
        std::max(Bytes(0), kernel.bytes() - gpu.l2 - gpu.l2) / gpu.dram_bandwidth;
    floor.arithmetic += arithmetic;
    floor.kernels += std::max(arithmetic, traffic);
  }
  return floor;
}

}  // namespace

StepFloor step_floor(const LoweredStep& step, const GpuSpec& gpu) {
  StepFloor floor;
  for (const LoweredOp& op : step.ops) {
    if (op.candidates.empty()) continue;
    StepFloor least = floor_of(op.candidates.front(), gpu);
    for (const Candidate& candidate : op.candidates) {
      const StepFloor other = floor_of(candidate, gpu);
      least.arithmetic = std::min(least.arithmetic, other.arithmetic);
      least.kernels = std::min(least.kernels, other.kernels);
    }
    floor.arithmetic += least.arithmetic;
    floor.kernels += least.kernels;
  }
  return floor;
}

}  // namespace tracecast
