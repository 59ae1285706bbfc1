#pragma once
#include "sim/cost/prefill.hpp"

namespace tracecast::cost {

/// Attention of one new token a sequence over its cache. A block holds the queries of one head of
/// keys (padded to 16, as rows of warp groups to 64, 128 or 192: decode.cpp) and a part of the
/// keys; single heads and groups beyond 32 heads run in TensorRT-LLM's kernel for single heads,
/// which reads a group's keys for each head and then splits nothing; FlashAttention 2 (vLLM before
/// Hopper) reads them for each head where there is a window, and copies queries and results into
/// groups and back where there is none. With keys' = keys seen, or window + 128 `window`:
///   residents = blocks of 80 KiB that an SM's shared memory holds, 1 at least; buffers = 160 KiB,
///   or what there is. One block: FlashAttention 3,
///     with all of the SM's; TensorRT-LLM's XQA with Ampere's instructions, of 80 KiB
///   TensorRT-LLM's kernel for single heads: load = waves values ungrouped / (32 values a clock of
///   L2), blocks without regard to residents parts  = 1, or min(keys'/keys_per_split, splits), no
///   more than fill `fill` blocks on each SM, whichever takes less waves  = blocks <= SMs ? 1 : q
///   blocks/SMs rounded up + (1-q) blocks/SMs load   = waves * values of a part in bytes (keys
///   padded to 64 at the cost of `padding`) / (stream_bytes_per_clock factor buffers clock) math =
///   waves * rows * padded keys (2 GEMMs / rate + softmax_cycles / clock),   rate =
///   TensorRates::at(efficiency) dram   = cache and queries as far as they miss L2, 1/(1 +
///   (L2/footprint)^4), / bandwidth slower = (2 GHz / clock)^clock_exponent: what chains of
///   latencies take call   less embed_us where XQA's kernel embeds positions itself time   = slower
///   (call + copy_us + block_cycles waves / residents / 2 GHz + combine_us (1 - 1/parts))
///            + (slower_of(load, dram)^3 + math^3)^(1/3) + traffic of the parts that tiles of 64
///            keys leave + traffic around
/// Latent attention: one block, all of the SM's shared memory; grids that sources give (find_grid
/// in attention.hpp) have their rows, parts and one tile's buffers, Triton's `triton` of the
/// factor. A cache that is widened adds upcast_us and values / (SMs clock upcasts_per_clock); GEMMs
/// that bring queries to the latent's width and back, and eager calls, as in prefill.hpp. Source:
/// Dao et al., Flash-Decoding (PyTorch blog, 2023) for the parts; figures from tables, notes/0006.
[[nodiscard]] CallEstimate estimate_decode(const DecodeWork& work, const TensorBoard& board,
                                           const CostProfile& profile);

}  // namespace tracecast::cost
