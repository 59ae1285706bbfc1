#pragma once
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Roofs of a kernel that passes over its data once: elementwise, copies, layout changes, pooling,
/// updates.
///   dram    = bytes * miss(bytes) / access_efficiency / SustainedGpu::stream
///   l2      = bytes / l2 rate
///   compute = elements * cost * (1 / elements_per_clock + operations / (lanes * share) +
///   instructions / issued) / (SMs * clock) issued  = 32 * schedulers, instructions of a warp per
///   clock, times its threads clock   = that of kernels that leave power to spare memory  = soft
///   maximum of dram and l2;  miss(b) = 1 / (1 + (l2_share * l2 / b)^2)
/// Repeated runs of one kernel find small operands in L2, and so do consecutive kernels of a
/// network. `share` is that of cuDNN's best kernels (issue.hpp). `cost` is
/// convolution.transform_cost for the transforms of Winograd and FFT (few threads, many registers),
/// else 1. Pooling forward: per window, window_instructions * (cells + 2.5) of any kind in place of
/// `operations`; what neighbours share comes from L1. Source: data/kernels/pooling.csv, where
/// windows of 3x3 take 290 to 380 instructions a warp on every generation from Kepler to Volta.
/// Transposes (KernelClass::Transpose) reach `transpose_efficiency` of the bandwidth on top.
/// Additions (StreamWork::additions): a slice of L2 takes one at a time, and threads that run at
/// once add to their share of the result.
///   lines    = written * min(1, threads of the GPU / elements) / 128, at least 1
///   fullest  = max(1, m + sqrt(2 m ln(slices))), m = lines / slices: of lines that fall on slices
///   at random additions * fullest / lines * addition_cycles / clock, beside the other roofs of
///   memory
/// Slices: of 512 KiB from Ampere on, before of 96. Source: NVIDIA A100 Tensor Core GPU
/// Architecture, "A100 L2 cache": 40 slices of 512 KB in each half, 64 bytes a clock each; V100's
/// 2,048 bytes a clock and 6 MB are 64 slices of 32 bytes and 96 KiB. Checked where nothing was
/// read off: the same resizing in 32 bits, two lines at a
/// time: DeepLab's step in TF32 is reported within 1 %.
/// Source: COST_MODEL.md section 4.
[[nodiscard]] Roofs estimate_streaming(const Kernel& kernel, const StreamWork& work,
                                       const SustainedGpu& machine, const GpuSpec& gpu,
                                       const CostProfile& profile);

}  // namespace tracecast::cost
