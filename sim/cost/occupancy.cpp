#include "sim/cost/occupancy.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast::cost {

int blocks_per_sm(const LaunchGeometry& launch, const GpuSpec& gpu) {
  const int warps = std::max(1, (launch.threads + gpu.warp_size - 1) / gpu.warp_size);
  int blocks = std::min(gpu.max_blocks_per_sm, gpu.max_threads_per_sm / (warps * gpu.warp_size));
  if (launch.registers > 0) {
    constexpr int kUnit = 256;
    const int of_warp = (launch.registers * gpu.warp_size + kUnit - 1) / kUnit * kUnit;
    const int schedulers = std::max(gpu.warp_schedulers_per_sm, 1);
    const int resident = gpu.registers_per_sm / of_warp / schedulers * schedulers;
    blocks = std::min(blocks, resident / warps);
  }
  if (launch.shared_bytes > 0) {
    const double most = gpu.shared_memory_per_sm.in_bytes();
    blocks = std::min(blocks, static_cast<int>(most / launch.shared_bytes));
  }
  return std::max(blocks, 1);
}

double wave_fill(const LaunchGeometry& launch, const GpuSpec& gpu) {
  if (!(launch.blocks > 0)) return 1;
  const double slots = static_cast<double>(gpu.sm_count) * blocks_per_sm(launch, gpu);
  const double units = launch.blocks <= slots ? gpu.sm_count : slots;
  return launch.blocks / (units * std::ceil(launch.blocks / units));
}

}  // namespace tracecast::cost
