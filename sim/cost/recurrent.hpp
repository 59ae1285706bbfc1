#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Steps of recurrent layers. Both roofs are of all steps, and `overhead` what no roof contains.
struct RecurrentEstimate {
  Roofs roofs;
  Seconds duration{};  ///< of everything, without the fill of the last kernel
};

/// Step by step, with `cells` GEMMs of n x k weights for m sequences running at once (they share
/// the SMs as one batched GEMM would):
///   weights = cells n k, read from DRAM but for what L2 kept since the step before:
///   memory  = combine(weights miss / (bandwidth efficiency), weights / L2), miss =
///   miss_share(weights, L2) compute = tiles without split-K, or with it
///   (RecurrentWork::may_split_k), or a matrix-vector kernel where there are few
///             rows; on Kepler only tiles, never split, for more than one row; see tile_gemm.hpp
///   step    = combine(compute, memory) / recurrent.efficiency + fill + elementwise bytes / L2 +
///   fill
/// (and a GEMM with its fill for a projection). The library picks one kernel for a shape before it
/// runs; that the pick is often not the best for so few columns is what recurrent.efficiency stands
/// for. Persistent: weights are read once and stay on chip; a step is its arithmetic at
/// recurrent.persistent_efficiency, the state through L2 to every SM, and
/// recurrent.persistent_step_us for the barrier over all blocks. Source: Appleyard et al., arXiv
/// 1604.01946; Diamos et al., Persistent RNNs, ICML 2016.
[[nodiscard]] RecurrentEstimate estimate_recurrent(const Kernel& kernel, const RecurrentWork& work,
                                                   const SustainedGpu& machine, const GpuSpec& gpu,
                                                   const CostProfile& profile);

/// States passed from chunk to chunk. One SM's `rate` = arithmetic * efficiency of GEMMs / SMs:
///   step    = wait * max(1, chains / (4 SMs)) + max(1, chains / SMs) * flops_per_step / rate
///   compute = steps * step,   memory = bytes / bandwidth
/// Guess: four blocks on an SM hide each other's waits, and a wait is 2000 cycles: what the step
/// reads comes from memory (some 800 cycles), then two GEMMs follow each other with a barrier
/// between them. No measurement yet. Source of the form: Yang et al., arXiv 2412.06464,
/// section 3.3; Dao and Gu, arXiv 2405.21060, section 6.
[[nodiscard]] Roofs estimate_chain(const Kernel& kernel, const ChainWork& work,
                                   const SustainedGpu& machine, const GpuSpec& gpu,
                                   const CostProfile& profile);

}  // namespace tracecast::cost
