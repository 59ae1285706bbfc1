#pragma once
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Roofs of row-wise reductions: softmax, layer norm, batch norm.
///   total  = passes * rows * cols * element;  again = total - compulsory bytes, found in L2 while it fits there
///   dram   = (compulsory * miss(total) + again * miss(working set)) / (bandwidth * efficiency(architecture) * row_efficiency);
///            row_efficiency is 1 for strided rows
///   threads = rows * min(cols, 1024): a row occupies at most one block
///   fill    = min(1, threads / (SMs * reduction_threads)): few rows cannot draw the full bandwidth
///   memory  = soft maximum of dram and l2, divided by fill
/// Strided rows (batch norm over NCHW) re-read the whole tensor; contiguous rows re-read what resident blocks hold.
/// Source of the form: COST_MODEL.md section 4, simplified.
[[nodiscard]] Roofs estimate_reduction(const Kernel& kernel, const ReductionWork& work,
                                       const SustainedGpu& machine, const GpuSpec& gpu,
                                       const CostProfile& profile);

}  // namespace tracecast::cost
