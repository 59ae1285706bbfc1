#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/issue.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Time of a kernel without work: blocks are handed out, a chain of dependent instructions finds
/// what a thread has to do, and the last block ends.
///   fill = fill_us + fill_latencies * latency of the generation / clock
/// The clock is that of kernels which leave power to spare. Source: notes/0001.
[[nodiscard]] inline Seconds fill_time(const SustainedGpu& machine, const GpuSpec& gpu,
                                       const CostProfile& profile) {
  const double cycles = profile.kernel.fill_latencies * arithmetic_latency(gpu.architecture);
  return Seconds(profile.kernel.fill_us * 1e-6 + cycles / machine.free_clock.in_si());
}

}  // namespace tracecast::cost
