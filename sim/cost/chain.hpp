#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// States passed from chunk to chunk. One SM's `rate` = arithmetic * efficiency of products / SMs:
///   step    = wait * max(1, chains / (4 SMs)) + max(1, chains / SMs) * flops_per_step / rate
///   compute = steps * step,   memory = bytes / bandwidth
/// Guess: four blocks on an SM hide each other's waits, and a wait is 2000 cycles: what the step reads comes from memory
/// (some 800 cycles), then two products follow each other with a barrier between them. No measurement yet.
/// Source of the form: Yang et al., arXiv 2412.06464, section 3.3; Dao and Gu, arXiv 2405.21060, section 6.
[[nodiscard]] Roofs estimate_chain(const Kernel& kernel, const ChainWork& work,
                                   const SustainedGpu& machine, const GpuSpec& gpu,
                                   const CostProfile& profile);

}  // namespace tracecast::cost
