#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/tensor_board.hpp"

namespace tracecast::cost {

/// What an engine's call takes, and what bounds its main kernel.
struct CallEstimate {
  Seconds duration{};
  Roofs roofs;
  double body_share = 1;  ///< of the duration, what is not the call's fixed time
};

/// Time of a call that the host launches kernel by kernel while the GPU works on the one before:
/// (host^6 + gpu^6)^(1/6).
[[nodiscard]] double beside_host(double host, double gpu);

/// Attention of new tokens on tensor cores. A block holds 128 queries of a head (16 at least) and
/// passes over the keys in tiles of 128; of up to 128 tokens, engines that pack fill blocks with
/// queries of a group of heads. With one SM's `rate` = TensorRates::at(efficiency factor / (1 +
/// wide max(0, key_width/128 - 1))) and n = ceil(tokens / 128):
///   tiles    = n (n+1) / 2, or with a window of w: d = ceil((w-1)/128) + 1 + window, d (d+1)/2 +
///   (n-d) d, no more than without, and as many where a kernel masks all keys (SGLang's in Triton,
///   `triton` of the factor where others have none); not causal: n ceil(keys / 128) GEMMs = 2 * 128
///   * 128 (key_width + value_width) / rate softmax  = 128 * 128 TensorBoard::softmax_cycles /
///   clock    (16 special function units an SM: notes/0006) tile     = (GEMMs^overlap +
///   softmax^overlap)^(1/overlap) * share of it that is filled block    = (block_cycles +
///   tile_cycles rows/128 width/128) / clock body     = max(longest, (blocks block + batch heads
///   tiles tile) / SMs + tail longest) longest  = block + latency + most tiles of a block (tile +
///   key_cycles/clock) body     = slowed by the power limit (TensorBoard::slowdown), then (body^3 +
///   memory^3)^(1/3) call     = call_us (2 GHz / clock)^clock_exponent + body + traffic of the
///   kernels around it
/// Of the call, what a work says of it: less write_us and the cache's traffic where it leaves that
/// to others, more cast_us where it narrows its inputs, the library's GEMM where it expands a
/// latent vector, widened values; an eager one takes beside_host() (notes/0006). Gradients (5
/// GEMMs): body and memory 2.5 times. Without an engine: FlashAttention 2 where instructions are
/// Ampere's, whose figures are those of vLLM's rows there, else what engines have in common. A
/// kernel of Ampere's instructions on a later board (`by_warps`): its generation's factors, at
/// warp_share^(generations since) of whole tensor cores, as GEMMs have it (GEMM.hpp). Bytes come
/// from memory as far as the footprint misses L2, 1 / (1 + (L2/footprint)^2), and pass L2 in any
/// case; calls are repeated on the same data in benchmarks and follow their own producers in
/// engines. Source of the form: Dao, arXiv 2307.08691, section 3; Shah et al., arXiv 2407.08608,
/// section 3 (overlap of GEMMs and softmax); figures from tables, notes/0006. Leaves out: cached
/// prefixes, lengths that differ within a batch.
[[nodiscard]] CallEstimate estimate_prefill(const PrefillWork& work, const TensorBoard& board,
                                            const CostProfile& profile);

}  // namespace tracecast::cost
