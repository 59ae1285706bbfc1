#pragma once
#include <optional>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "sim/cost/tensor_board.hpp"

namespace tracecast::cost {

/// Attention in one kernel, scores kept on the SM. GEMMs and the softmax between them take turns on
/// an SM:
///   scores   = batch * heads * queries * keys [/ 2 + half a tile of keys per query when causal]
///   GEMMs = flops / (arithmetic * efficiency of GEMMs in this format)
///   softmax  = scores * (instructions / (lanes * clock) + 1 / (special units * clock))
///   blocks   = batch * heads * ceil(queries / 128),   waves = max(1, blocks / SMs)
///   compute  = (GEMMs + softmax) * max(1, SMs / blocks)
///   memory   = bytes / bandwidth
/// A quarter as many special-function units as scheduler lanes: 16 per SM from Pascal to Hopper
/// (CUDA C++ Programming Guide, table of arithmetic throughput). Instructions per score, counted
/// from FlashAttention-2's loops: forward 6 (scale, maximum, subtract, sum, convert, rescaling of
/// the result), backward 12 (scale, subtract, dP - delta, times P, two conversions, scale, and the
/// atomic sums of dQ). From Hopper on its instructions, those of Ampere, reach 0.62 of the peak
/// (Luo et al., arXiv 2402.13499, mma against wgmma); FlashAttention-3, written for Hopper, is
/// faster than this. Operands of 32 bits are split into two tf32 values each, three GEMMs for one,
/// at attention.split_efficiency of the tf32 rate; scores fill whole tiles of 64. Source of the
/// form: Dao, arXiv 2307.08691, section 3.1 ("non-matmul FLOPs"); Shah et al., arXiv 2407.08608,
/// section 3.
[[nodiscard]] Roofs estimate_attention(const Kernel& kernel, const AttentionWork& work,
                                       const SustainedGpu& machine, const GpuSpec& gpu,
                                       const CostProfile& profile);

/// Which kernel an inference engine runs for attention on a board, by the engines' sources; the
/// sources stand at each rule.

/// How the keys of a sequence are shared out over a latent cache or by Triton's kernels.
struct DecodeGrid {
  double rows = 16;  ///< queries that a block holds; heads beyond them are further blocks
  double parts = 1;  ///< of a sequence's keys
};

/// Whether the kernel is one of Triton's.
[[nodiscard]] bool is_triton(const PrefillWork& work, const TensorBoard& board);
[[nodiscard]] bool is_triton(const DecodeWork& work, const TensorBoard& board);

/// What its source says of the grid; nothing: a block holds all queries of a head of keys.
[[nodiscard]] std::optional<DecodeGrid> find_grid(const DecodeWork& work, const TensorBoard& board);

/// Whether an 8-bit latent cache is made a 16-bit one in every call: SGLang's FlashAttention
/// backend does, since that kernel wants keys of the queries' type and latent queries are never
/// narrowed. Source: sglang, layers/attention/flashattention_backend.py,
/// get_key_buffer(...).to(q.dtype).
[[nodiscard]] bool upcasts_cache(const PrefillWork& work, const TensorBoard& board);
[[nodiscard]] bool upcasts_cache(const DecodeWork& work, const TensorBoard& board);

/// A prompt of one token where the engine's kernels go by the lengths of queries alone: the call
/// that decodes. Source: vllm, v1/attention/backends (decode_threshold of
/// split_decodes_and_prefills in FlashInfer's; FlashAttention's has one kernel for both). Not
/// SGLang's on data-centre Blackwell nor TensorRT-LLM's, which have a context phase.
[[nodiscard]] std::optional<DecodeWork> as_decode(const PrefillWork& work);

/// Whether a call narrows queries, keys and values by kernels of its own for the kernel of
/// TensorRT-LLM that SGLang runs on data-centre Blackwell.
[[nodiscard]] bool casts_inputs(const PrefillWork& work, const TensorBoard& board);
[[nodiscard]] bool casts_inputs(const DecodeWork& work, const TensorBoard& board);

}  // namespace tracecast::cost
