#pragma once
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Roofs of a kernel that passes over its data once: elementwise, copies, layout changes, pooling, updates.
///   dram    = bytes * miss(bytes) / access_efficiency / (bandwidth * efficiency(architecture))
///   l2      = bytes / l2 rate; pooling: max(bytes, elements * operations * element size), each window read whole
///   compute = elements * cost * (1 / elements_per_clock + operations / (lanes * share)) / (SMs * clock)
///   memory  = soft maximum of dram and l2;  miss(b) = 1 / (1 + (l2_share * l2 / b)^2)
/// Repeated runs of one kernel find small operands in L2, and so do consecutive kernels of a network.
/// `share` is that of cuDNN's best kernels (issue.hpp). `cost` is convolution.transform_cost for the transforms of Winograd and FFT (few threads, many registers), else 1.
/// Transposes (KernelClass::Transpose) reach `transpose_efficiency` of the bandwidth on top.
/// Source: COST_MODEL.md section 4.
[[nodiscard]] Roofs estimate_streaming(const Kernel& kernel, const StreamWork& work,
                                       const SustainedGpu& machine, const GpuSpec& gpu,
                                       const CostProfile& profile);

}  // namespace tracecast::cost
