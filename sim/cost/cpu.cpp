#include "sim/cost/cpu.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

#include "sim/base/error.hpp"
#include "sim/cost/roofs.hpp"

namespace tracecast::cost {
namespace {

constexpr int kAvxFlopPerCycle = 16;  // 8 lanes, a multiplication and an addition

int flop_per_cycle(const CpuTarget& target, Precision format) {
  const CpuSpec& cpu = target.node.cpu;
  if (target.kernels == CpuKernels::EigenAvx) {
    return std::min(cpu.fp32_flop_per_cycle, kAvxFlopPerCycle);
  }
  const int own = format == Precision::Int8   ? cpu.int8_op_per_cycle
                  : format == Precision::Bf16 ? cpu.bf16_flop_per_cycle
                                              : 0;
  return std::max(own, cpu.fp32_flop_per_cycle);
}

Hertz clock_of(const CpuTarget& target) {
  return target.kernels == CpuKernels::EigenAvx ? target.node.cpu.all_core_clock
                                                : target.node.cpu.vector_clock;
}

/// Share of a core's vector peak that this kind of kernel reaches on one core.
double efficiency_of(const Kernel& kernel, const CpuTarget& target, const CpuParameters& p) {
  const bool is_gemm = std::holds_alternative<MatrixWork>(kernel.work) ||
                       std::holds_alternative<RecurrentWork>(kernel.work) ||
                       std::holds_alternative<AttentionWork>(kernel.work) ||
                       std::holds_alternative<ChainWork>(kernel.work) ||
                       std::holds_alternative<PrefillWork>(kernel.work) ||
                       std::holds_alternative<DecodeWork>(kernel.work) ||
                       std::holds_alternative<ExpertsWork>(kernel.work);
  const bool is_convolution = std::holds_alternative<ConvWork>(kernel.work);
  if (!is_gemm && !is_convolution) return p.stream_efficiency;
  if (kernel.algorithm == Algorithm::Direct) return p.stream_efficiency;  // depthwise
  double efficiency =
      target.kernels == CpuKernels::EigenAvx ? p.eigen_efficiency : p.library_efficiency;
  if (is_convolution) {
    efficiency *= p.convolution_factor;
    if (kernel.pass != Pass::Forward) efficiency *= p.backward_factor;
  }
  return efficiency;
}

/// Bytes that the cores read and write; row reductions pass over their data again and again.
double traffic_of(const Kernel& kernel) {
  double bytes = kernel.bytes().in_bytes();
  if (const auto* rows = std::get_if<ReductionWork>(&kernel.work)) {
    bytes = std::max(bytes, static_cast<double>(rows->rows) * static_cast<double>(rows->cols) *
                                rows->passes * element_size(kernel.data).in_bytes());
  }
  return bytes;
}

/// Pieces of a kernel's work that follow each other, each shared among threads by itself.
double steps_of(const Kernel& kernel) {
  const auto* recurrent = std::get_if<RecurrentWork>(&kernel.work);
  return recurrent == nullptr ? 1.0 : static_cast<double>(recurrent->steps);
}

Seconds memory_time(double bytes, int threads, const CpuTarget& target, const CpuParameters& p) {
  const CpuNode& node = target.node;
  const BytesPerSecond sockets = node.cpu.memory_bandwidth * p.memory_efficiency *
                                 (1.0 + p.remote_efficiency * (node.sockets - 1));
  const BytesPerSecond cores(threads * p.core_gb_per_s * 1e9);
  const double caches = node.cpu.l3.in_bytes() * node.sockets;
  const Seconds dram = Bytes(bytes * miss_share(bytes, caches, 1.0)) / min(sockets, cores);
  const BytesPerSecond cache(threads * p.cache_bytes_per_clock * node.cpu.all_core_clock.in_si());
  return max(dram, Bytes(bytes) / cache);
}

}  // namespace

FlopsPerSecond core_rate(const CpuTarget& target, Precision format) {
  return FlopsPerSecond(flop_per_cycle(target, format) * clock_of(target).in_si());
}

int cpu_threads(const Kernel& kernel, const CpuTarget& target, const CostProfile& profile) {
  constexpr double kStartupCycles = 100000, kPerThreadCycles = 100000, kCyclesPerByte = 11.0 / 64;
  const double cycles = kernel.flops.in_flop() / (flop_per_cycle(target, kernel.math) *
                                                  efficiency_of(kernel, target, profile.cpu)) +
                        traffic_of(kernel) * kCyclesPerByte;
  const double threads = (cycles / steps_of(kernel) - kStartupCycles) / kPerThreadCycles + 0.9;
  return static_cast<int>(std::clamp<double>(threads, 1, target.node.cores()));
}

KernelEstimate estimate_on_cpu(const Kernel& kernel, const CpuTarget& target,
                               const CostProfile& profile) {
  const CpuParameters& p = profile.cpu;
  const int threads = cpu_threads(kernel, target, profile);
  const double loss =
      target.kernels == CpuKernels::EigenAvx ? p.eigen_core_loss : p.library_core_loss;
  const double share = threads / (1.0 + loss * (threads - 1));
  const FlopsPerSecond rate =
      core_rate(target, kernel.math) * (efficiency_of(kernel, target, p) * share);
  const Roofs roofs{.compute = kernel.flops / rate,
                    .memory = memory_time(traffic_of(kernel), threads, target, p),
                    .under_occupied = threads < target.node.cores()};
  KernelEstimate estimate;
  estimate.compute_time = roofs.compute;
  estimate.memory_time = roofs.memory;
  estimate.duration = combine(roofs);
  if (threads > 1) estimate.duration += Seconds(p.parallel_us * 1e-6 * steps_of(kernel));
  estimate.bound = roofs.under_occupied           ? Bound::Latency
                   : roofs.compute > roofs.memory ? Bound::Compute
                                                  : Bound::Memory;
  estimate.basis = kernel.is_bounded_guess ? Basis::Unknown : Basis::Spec;
  estimate.log_sd = kernel.is_bounded_guess ? 2 * p.error : p.error;
  estimate.shared_log_sd = estimate.log_sd;  // one figure for all that these cores do
  return estimate;
}

PricedCandidate choose_on_cpu(const LoweredOp& op, const CpuTarget& target,
                              const CostProfile& profile) {
  TRACECAST_CHECK(!op.candidates.empty(), "an op that does work has at least one candidate");
  const auto exists = [](const Candidate& c) {
    return c.algorithm == Algorithm::None || c.algorithm == Algorithm::Direct ||
           c.algorithm == Algorithm::ImplicitGemm;
  };
  auto taken = std::find_if(op.candidates.begin(), op.candidates.end(), exists);
  if (taken == op.candidates.end()) taken = op.candidates.begin();
  PricedCandidate result;
  result.candidate = &*taken;
  for (const Kernel& kernel : taken->kernels) {
    result.estimates.push_back(estimate_on_cpu(kernel, target, profile));
    result.duration += result.estimates.back().duration;
  }
  return result;
}

}  // namespace tracecast::cost
