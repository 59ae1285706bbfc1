#include "sim/cost/reduction.hpp"

#include <algorithm>

namespace tracecast::cost {

Roofs estimate_reduction(const Kernel& kernel, const ReductionWork& work,
                         const SustainedGpu& machine, const GpuSpec& gpu,
                         const CostProfile& profile) {
  const MemoryParameters& p = profile.memory;
  const double rows = static_cast<double>(work.rows);
  const double cols = static_cast<double>(work.cols);
  const double elements = rows * cols;
  const double row_bytes = cols * element_size(kernel.data).in_bytes();
  const double compulsory = kernel.bytes().in_bytes();
  const double total = std::max(compulsory, work.passes * rows * row_bytes);
  const double resident_rows =
      std::min(rows, machine.sm_count * std::max(1.0, gpu.max_threads_per_sm / 256.0));
  const double footprint = work.strided ? rows * row_bytes : resident_rows * row_bytes;
  const double dram_bytes =
      compulsory * miss_share(compulsory, machine.l2_bytes, p.l2_share) +
      (total - compulsory) * miss_share(footprint, machine.l2_bytes, p.l2_share);
  const double threads = rows * std::min(cols, 1024.0);
  const double fill = std::min(1.0, threads / (machine.sm_count * p.reduction_threads));
  const double bandwidth = machine.dram.in_si() * p.efficiency[gpu.architecture] *
                           (work.strided ? 1.0 : p.row_efficiency);
  Roofs parts;
  parts.compute = Seconds(dram_bytes / bandwidth);
  parts.memory = Seconds(total / machine.l2.in_si());
  Roofs roofs;
  roofs.memory = combine(parts) / fill;
  if (work.strided) {
    // One block per channel: many short rows wait for their own latency, one after the other.
    const double resident = machine.sm_count * std::max(1.0, gpu.max_threads_per_sm / 1024.0);
    const Seconds latency(std::max(1.0, rows / resident) * work.passes * p.block_pass_cycles /
                          machine.clock.in_si());
    if (latency > roofs.memory) {
      roofs.memory = latency;
      roofs.starved = true;
    }
  }
  roofs.compute = Seconds(elements * work.passes /
                          (machine.sm_count * p.elements_per_clock * machine.clock.in_si()));
  roofs.starved = roofs.starved || fill < 1;
  // A block per channel, however short its row.
  roofs.sm_share = work.strided ? std::min(1.0, rows / machine.sm_count)
                                : share_with_blocks(threads, machine.sm_count);
  return roofs;
}

}  // namespace tracecast::cost
