#pragma once
#include "hwspecs/gpu_spec.hpp"
#include "models/recorded_work.hpp"

namespace tracecast::cost {

/// Blocks of this launch that one SM holds at a time: the least that threads, block slots,
/// registers (given to warps in units of 256, a multiple of the schedulers' warps) and shared
/// memory allow. At least 1, since it was launched; what is not recorded (0) limits nothing.
/// Source: CUDA C++ Programming Guide, Hardware Multithreading; the CUDA occupancy calculator's
/// allocation units.
[[nodiscard]] int blocks_per_sm(const LaunchGeometry& launch, const GpuSpec& gpu);

/// Share of the SMs' time in which blocks run, when all take equally long:
///   below one wave (blocks <= slots)  (blocks / SMs) / ceil(blocks / SMs)
///   above                             blocks / (slots * ceil(blocks / slots)),   slots = SMs *
///   blocks_per_sm
/// 1 when the geometry is not recorded.
[[nodiscard]] double wave_fill(const LaunchGeometry& launch, const GpuSpec& gpu);

}  // namespace tracecast::cost
