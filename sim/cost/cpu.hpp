#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/cpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/kernel.hpp"
#include "sim/cost/price.hpp"

namespace tracecast::cost {

/// The cores of a machine as one framework's kernels use them.
struct CpuTarget {
  const CpuNode& node;
  CpuKernels kernels = CpuKernels::Library;
};

/// Multiply-add rate of one core on a number format, all cores busy.
///   eigen_avx: min(fp32_flop_per_cycle, 16) * all-core clock
///   library:   flop_per_cycle(format) * clock in the widest vectors
/// A format without instructions of its own runs at FP32's rate.
[[nodiscard]] FlopsPerSecond core_rate(const CpuTarget& target, Precision format);

/// Threads that share an op, one a core at most:
///   cycles = flops / (flop per cycle * efficiency) + bytes * 11/64
///   threads = (cycles - 100000) / 100000 + 0.9, at least 1
/// Source: Eigen, unsupported/Eigen/CXX11/src/Tensor/TensorCostModel.h (kStartupCycles,
/// kPerThreadCycles, kLoadCycles); matrix libraries are taken to share alike.
[[nodiscard]] int cpu_threads(const Kernel& kernel, const CpuTarget& target,
                              const CostProfile& profile);

/// Duration of `kernel` on the cores, t threads, e = efficiency of its kind, m = byte sizes of the
/// last-level caches:
///   share   = t / (1 + core_loss * (t - 1))
///   compute = flops / (core_rate * e * share)
///   dram    = bytes * miss(bytes, m) / min(t * core_gb_per_s, bandwidth * memory_efficiency * (1 +
///   remote * (sockets - 1))) cache   = bytes / (t * cache_bytes_per_clock * all-core clock) memory
///   = max(dram, cache) duration = roofs together, and parallel_us where t > 1
/// e: GEMMs eigen_ or library_efficiency; convolutions times convolution_factor, backward passes
/// times backward_factor; all that streams stream_efficiency. Row reductions read their data
/// `passes` times. Steps of recurrent layers are GEMMs one after the other, each shared among
/// threads by itself. Every parameter is a prior: basis Spec, and an error to match. Leaves out:
/// hyper-threads, NUMA placement by hand, Winograd in oneDNN, power limits beyond the vector clock.
[[nodiscard]] KernelEstimate estimate_on_cpu(const Kernel& kernel, const CpuTarget& target,
                                             const CostProfile& profile);

/// The candidate that CPU libraries have: the direct one of depthwise convolutions, GEMMs over
/// packed patches of the others. Needs op.candidates non-empty.
[[nodiscard]] PricedCandidate choose_on_cpu(const LoweredOp& op, const CpuTarget& target,
                                            const CostProfile& profile);

}  // namespace tracecast::cost
