#include "sim/cost/reduction.hpp"

#include <algorithm>

namespace tracecast::cost {
namespace {

/// Bytes that a reduction touches.
struct Traffic {
  double compulsory = 0;  ///< every operand once
  double total = 0;       ///< all passes
};

Traffic traffic_of(const Kernel& kernel, const ReductionWork& work, double row_bytes) {
  const double compulsory = kernel.bytes().in_bytes();
  return {compulsory,
          std::max(compulsory, work.passes * static_cast<double>(work.rows) * row_bytes)};
}

/// Later passes find in L2 what of `kept` bytes fits into `share` of it.
Seconds memory_time(const Traffic& bytes, double kept, double share, double bandwidth,
                    const SustainedGpu& machine, const MemoryParameters& p) {
  const double dram_bytes =
      bytes.compulsory * miss_share(bytes.compulsory, machine.l2_bytes, p.l2_share) +
      (bytes.total - bytes.compulsory) * miss_share(kept, machine.l2_bytes, share);
  Roofs parts;
  parts.compute = Seconds(dram_bytes / bandwidth);
  parts.memory = Seconds(bytes.total / machine.l2.in_si());
  return combine(parts);
}

/// Blocks of so many threads that all SMs hold at once.
double resident_blocks(double threads, const SustainedGpu& machine, const GpuSpec& gpu) {
  const double per_sm = std::clamp(gpu.max_threads_per_sm / threads, 1.0,
                                   std::max(1.0, static_cast<double>(gpu.max_blocks_per_sm)));
  return machine.sm_count * per_sm;
}

/// Operations of random numbers: what is beyond a row's own (a softmax has 16 an element, a layer
/// norm no more) comes of nothing else in a row, and is on 32-bit integers.
double integer_operations(const Kernel& kernel, const ReductionWork& work) {
  constexpr double kOfRows = 24;
  const double elements = static_cast<double>(work.rows) * static_cast<double>(work.cols);
  return std::max(0.0, kernel.flops.in_flop() - kOfRows * elements);
}

/// Of 32-bit integers, GEMMs among them, an SM gives in a cycle from Volta on; Pascal multiplies in
/// several instructions. Source: CUDA C++ Programming Guide, Throughput of Native Arithmetic
/// Instructions.
constexpr double kIntegersPerCycle = 64;

Roofs contiguous_rows(const Kernel& kernel, const ReductionWork& work, const Traffic& bytes,
                      double rows, double row_bytes, double element, const SustainedGpu& machine,
                      const GpuSpec& gpu, const MemoryParameters& p) {
  constexpr double kWarp = 32;
  const double threads = work.row_threads;
  const double resident_rows =
      std::min(rows, resident_blocks(std::max(kWarp, threads), machine, gpu));
  Roofs roofs;
  roofs.memory = memory_time(bytes, resident_rows * row_bytes, p.row_l2_share,
                             machine.stream.in_si() * p.row_efficiency, machine, p);
  const double per_row =
      threads / kWarp * (threads > kWarp ? p.row_block_instructions : p.row_warp_instructions);
  const double integers = integer_operations(kernel, work);
  const double instructions =
      rows * per_row + bytes.compulsory / (2 * kWarp * element) * p.row_element_instructions +
      integers / kWarp;
  const double cycles = machine.sm_count * machine.free_clock.in_si();
  const double issue = instructions / (cycles * std::max(1, gpu.warp_schedulers_per_sm));
  // The instructions of one row follow each other: few rows leave SMs idle.
  roofs.sm_share = share_with_blocks(rows * threads, machine.sm_count);
  // Half of the lanes take integers, and leave every other issue slot to the rest.
  roofs.compute =
      Seconds(cube_root_sum(issue, integers / (cycles * kIntegersPerCycle), 0) / roofs.sm_share);
  roofs.under_occupied = roofs.sm_share < 1;
  return roofs;
}

Roofs strided_rows(const Traffic& bytes, const ReductionWork& work, double row_bytes,
                   bool is_forward, const SustainedGpu& machine, const GpuSpec& gpu,
                   const MemoryParameters& p) {
  constexpr double kLibraryThreads = 1024;  // of the block whose rate the parameter is
  const double rows = static_cast<double>(work.rows), threads = work.block_threads;
  Roofs roofs;
  roofs.memory =
      memory_time(bytes, rows * row_bytes, p.l2_share, machine.stream.in_si(), machine, p);
  // Two operands and their sums leave a block of the backward pass fewer loads in flight. Source:
  // ResNet-50's batch norms in data/traces/kineto (V100): 64 blocks draw 620 to 690 GB/s forward,
  // 540 to 560 backward, 256 of them 760.
  constexpr double kBackward = 0.6;
  const double turns = std::max(1.0, rows / resident_blocks(threads, machine, gpu));
  // What a thread waits for a load that it needs at once. Source: traces/recordings, ResNet-50 in
  // bf16 on H200: blocks of 512 threads, 64 to 256 of them, take 0.36 to 0.49 us per turn through
  // them, forward and backward alike.
  constexpr double kWaitCycles = 800;
  const double element = row_bytes / static_cast<double>(work.cols);
  const double per_clock =
      work.element_by_element
          ? threads * element / kWaitCycles
          : p.block_bytes_per_clock * threads / kLibraryThreads * (is_forward ? 1.0 : kBackward);
  const double cycles = p.block_pass_cycles + row_bytes / per_clock;
  roofs.compute = Seconds(turns * work.passes * cycles / machine.free_clock.in_si());
  roofs.under_occupied = roofs.compute > roofs.memory;
  roofs.sm_share = std::min(1.0, rows / machine.sm_count);
  return roofs;
}

}  // namespace

Roofs estimate_reduction(const Kernel& kernel, const ReductionWork& work,
                         const SustainedGpu& machine, const GpuSpec& gpu,
                         const CostProfile& profile) {
  const double rows = static_cast<double>(work.rows);
  const double element = element_size(kernel.data).in_bytes();
  const double row_bytes = static_cast<double>(work.cols) * element;
  const Traffic bytes = traffic_of(kernel, work, row_bytes);
  if (work.strided) {
    return strided_rows(bytes, work, row_bytes, kernel.pass == Pass::Forward, machine, gpu,
                        profile.memory);
  }
  return contiguous_rows(kernel, work, bytes, rows, row_bytes, element, machine, gpu,
                         profile.memory);
}

}  // namespace tracecast::cost
