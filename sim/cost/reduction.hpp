#pragma once
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Roofs of reductions along rows: softmax, layer norm, batch norm, sums.
///   total  = passes * rows * cols * element;  again = total - compulsory bytes
///   memory = soft maximum of
///     dram = (compulsory * miss(compulsory) + again * miss(kept)) / (stream * row_efficiency)
///     l2   = total / l2 rate
/// Contiguous rows (softmax, layer norm): kept = rows of the resident blocks, in row_l2_share of
/// L2. The compute roof is the issue of instructions at the clock of kernels that leave power to
/// spare:
///   a warp holds its row (row_threads = 32): rows * row_warp_instructions
///   a block per row:                         rows * row_threads / 32 * row_block_instructions
///   and in both                              compulsory / (2 * 32 * element) *
///   row_element_instructions over SMs * schedulers * clock
/// Strided rows (batch norm over NCHW): kept = the whole tensor, row_efficiency is 1, and one block
/// per row waits:
///   latency = turns * passes * (block_pass_cycles + row bytes / (block_bytes_per_clock * share *
///   (backward: 0.6))) / clock, turns   = max(1, rows / resident blocks),  share = threads of a
///   block / 1024: as many loads in flight per thread
/// (a block that waits element by element: threads * element / 800 cycles in place of
/// block_bytes_per_clock * share) so that a few channels cannot draw the full bandwidth, and many
/// on small images wait for one another. Leaves out: rows that start between memory sectors;
/// reductions whose rows several blocks share. Source: COST_MODEL.md section 4; PyTorch 2.1,
/// aten/src/ATen/native/cuda/{SoftMax,PersistentSoftmax,layer_norm_kernel}.
[[nodiscard]] Roofs estimate_reduction(const Kernel& kernel, const ReductionWork& work,
                                       const SustainedGpu& machine, const GpuSpec& gpu,
                                       const CostProfile& profile);

}  // namespace tracecast::cost
