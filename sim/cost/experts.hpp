#pragma once
#include "sim/cost/prefill.hpp"

namespace tracecast::cost {

/// A MoE on one rank: two grouped GEMMs, each with the tile that takes least, and the kernels
/// around them. Grouped GEMM of n columns and depth k over experts that have tokens, tile tm x tn,
/// one SM's `rate` = TensorRates::at(efficiency / edge), `fill` = whole efficiency, edge = 1 +
/// operand_edge (tm + tn) / (2 tm tn):
///   blocks = sum over experts of ceil(rows / tm) * ceil(n / tn),   waves as for GEMMs (GEMM.hpp)
///   mma    = waves 2 max(tm, 16) tn (k / rate + block_depth edge / fill)
///   load   = waves (tm a + tn b) k / stream                         (a, b: bytes of a value of
///   activations and weights) dram   = weights of the experts that have tokens, rows in and out, as
///   far as they miss L2, 1/(1 + (L2/footprint)^4), / bandwidth time   = block_cycles waves / clock
///   + (mma^3 + load^3 + dram^3)^(1/3), slowed by the power limit
/// Around them: call_us, `route` cycles per token and expert, `expert` and `pair` hundreds of
/// cycles per expert and per token's expert (histogram, prefix sums, scatter), and `traffic` passes
/// over rows to permute, activate and add up. Buffers of vLLM's and SGLang's kernels have a row for
/// each token's expert on any rank: what is around the GEMMs passes over a share `passed` of other
/// ranks' rows, too, times `passed_whole` in kernels for 4-bit floats. Measured calls may multiply
/// some of those rows as well (ExpertsWork::strays), or hold the GEMMs alone, with `alone` of the
/// traffic around them and no routing. Leaves out: which rank waits for which; shared experts,
/// which are GEMMs of their own. Figures: notes/0006.
[[nodiscard]] CallEstimate estimate_experts(const ExpertsWork& work, const TensorBoard& board,
                                            const CostProfile& profile);

/// One kernel that narrows rows x cols values: read 2 bytes, write 1 each.
///   memory = bytes that miss L2 / bandwidth, with bytes / L2 rate and values / (SMs clock
///   values_per_clock) as cubes, and no less than a row by a single block where rows are fewer than
///   SMs: cols / (clock row_values_per_clock)
[[nodiscard]] CallEstimate estimate_quantization(const QuantizationWork& work,
                                                 const TensorBoard& board,
                                                 const CostProfile& profile);

}  // namespace tracecast::cost
