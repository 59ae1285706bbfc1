#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Attention in one kernel, scores kept on the SM. Products and the softmax between them take turns on an SM:
///   scores   = batch * heads * queries * keys [/ 2 + half a tile of keys per query when causal]
///   products = flops / (arithmetic * efficiency of products in this format)
///   softmax  = scores * (instructions / (lanes * clock) + 1 / (special units * clock))
///   blocks   = batch * heads * ceil(queries / 128),   waves = max(1, blocks / SMs)
///   compute  = (products + softmax) * max(1, SMs / blocks)
///   memory   = bytes / bandwidth
/// A quarter as many special-function units as scheduler lanes: 16 per SM from Pascal to Hopper (CUDA C++ Programming
/// Guide, table of arithmetic throughput). Instructions per score, counted from FlashAttention-2's loops: forward 6
/// (scale, maximum, subtract, sum, convert, rescaling of the result), backward 12 (scale, subtract, dP - delta, times P,
/// two conversions, scale, and the atomic sums of dQ). From Hopper on its instructions, those of Ampere, reach 0.62 of the
/// peak (Luo et al., arXiv 2402.13499, mma against wgmma); FlashAttention-3, written for Hopper, is faster than this.
/// Operands of 32 bits are split into two tf32 values each, three products for one, at attention.split_efficiency of the tf32 rate; scores
/// fill whole tiles of 64.
/// Source of the form: Dao, arXiv 2307.08691, section 3.1 ("non-matmul FLOPs"); Shah et al., arXiv 2407.08608, section 3.
[[nodiscard]] Roofs estimate_attention(const Kernel& kernel, const AttentionWork& work,
                                       const SustainedGpu& machine, const GpuSpec& gpu,
                                       const CostProfile& profile);

}  // namespace tracecast::cost
