#pragma once
#include "hwspecs/gpu_spec.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// The least time that a board's data sheet leaves for the kernels of a step; nothing fitted is in
/// it.
///   arithmetic = sum over ops of the least over candidates of sum over kernels of flops /
///   peak(format, unit) kernels    = the same with max(flops / peak, (bytes - 2 * l2) /
///   dram_bandwidth) for each kernel
/// Bytes are compulsory, each operand once; of what a kernel reads and writes the L2 cache can keep
/// its size each. Algorithms that the library would not choose, or that lack workspace, count too:
/// they bound what a better choice could reach. `arithmetic` holds whatever a compiler fuses;
/// `kernels` where ops run one by one, as the framework's profile says. Leaves out: launches, the
/// host, copies, collectives, the clock under load.
struct StepFloor {
  Seconds arithmetic{}, kernels{};
};
[[nodiscard]] StepFloor step_floor(const LoweredStep& step, const GpuSpec& gpu);

}  // namespace tracecast
