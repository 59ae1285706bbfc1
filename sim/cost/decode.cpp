#include "sim/cost/decode.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cost/attention.hpp"

namespace tracecast::cost {
namespace {

constexpr double kLeastRows = 16, kKeyTile = 64, kWindowTile = 128;
constexpr double kCallClock = 2e9;
/// Bytes that an SM gets of L2 in a clock. Source: NVIDIA A100 whitepaper, "L2 cache": 5,120 bytes
/// a clock for 80 SMs.
constexpr double kFromL2 = 64;
/// Queries of a group that TensorRT-LLM's grouped kernels hold. Source: data/modern/README.md,
/// factors for some head ratios.
constexpr double kLargestGroup = 32;
/// Shared memory of a block that holds 64 queries and two pairs of tiles of 64 keys and values, of
/// width 128 in 16 bits.
constexpr double kBlockKib = (64 + 2 * 2 * 64) * 128 * 2 / 1024.0;

/// Factors of an engine by generation and format; 1 without one.
struct Factors {
  double factor = 1, call = 1, splits = 1, window = 1, block = 1, efficiency = 1, traffic = 0;
  double call_us = 0, combine_us = 0;
  double single_call = 1, single = 1;
};

bool by_single_kernels(const DecodeWork& w) {
  return w.engine == GemmEngine::TensorRtLlm && !w.latent;
}

/// FlashAttention 2, which vLLM runs over 16-bit caches before Hopper.
/// Source: Dao-AILab/flash-attention, csrc/flash_attn/flash_api.cpp, seqlenq_ngroups_swapped: the
/// queries of a group become the rows of a block, copied there and back, unless there is a window.
bool is_flash_attention_2(const DecodeWork& w, std::size_t kind) {
  return w.engine == GemmEngine::Vllm && kind == 0 && !w.fp8_cache && !w.latent;
}

/// Whether queries are the rows of warp groups' instructions: in FlashAttention 3, which vLLM and
/// SGLang run on Hopper, and FlashMLA, which TensorRT-LLM runs there too. Others take instructions
/// of warps, or communication operands. Over an 8-bit cache these compute in 8 bits. Sources:
/// flash-attention, hopper/tile_size.h and flash_api.cpp (types of queries and keys are one);
/// FlashMLA, blocks of 64 rows.
bool is_by_warp_groups(const DecodeWork& w, const TensorBoard& board) {
  return board.kind == MmaKind::WarpGroup && w.engine && !is_triton(w, board) &&
         (w.latent || w.engine != GemmEngine::TensorRtLlm);
}

/// Rows that queries of a head of keys fill there. Sources: flash-attention, hopper/tile_size.h,
/// tile_size_fwd_sm90: 192 where heads are 64 wide, else 128, 64 over latent caches; FlashMLA,
/// csrc: 64.
double rows_of_warp_groups(const DecodeWork& w) {
  if (w.latent) return 64;
  return w.width <= 64 ? 192 : 128;
}

/// TensorRT-LLM's kernels before data-centre Blackwell. By lanes: its old one, a block for each
/// head of queries. By warps: XQA with Ampere's instructions, 256 threads of 251 to 255 registers,
/// so one block on an SM, of 79,488 bytes. By groups: XQA with Hopper's, over 8-bit caches.
/// Sources: TensorRT-LLM, decoderXQAImplJIT/kernelUtils.cpp (supportConfigCommon: no XQA for single
/// heads; groups of 32 at most; supportConfigQGMMA); kernels/xqa/mha.cu, its launch bounds.
enum class XqaKernel { None, ByLanes, ByWarps, ByGroups };

XqaKernel xqa_kernel(const DecodeWork& w, const TensorBoard& board) {
  if (!by_single_kernels(w) || board.kind == MmaKind::TensorMemory) return XqaKernel::None;
  const double group = w.heads / w.kv_heads;
  if (group <= 1 || group > kLargestGroup) return XqaKernel::ByLanes;
  return board.kind == MmaKind::WarpGroup && w.fp8_cache ? XqaKernel::ByGroups : XqaKernel::ByWarps;
}

Factors factors_of(const DecodeWork& w, const DecodeParameters& p, std::size_t k,
                   bool is_low_precision, const CostProfile& profile) {
  const std::size_t f = is_low_precision ? 2 : 0;
  const std::size_t width = w.latent ? 0 : head_width_class(w.width);
  if (!w.engine) {
    return {.window = 0,
            .call_us = profile.tensor_gemm.start_us,
            .combine_us = profile.tensor_gemm.split_us};
  }
  const auto e = static_cast<std::size_t>(*w.engine);
  return {.factor = p.factor.values[e][k][f][width],
          .call = p.call_of.values[e][k][f] * (w.late ? p.late_call.values[e][k][f] : 1),
          .splits = by_single_kernels(w) && w.heads == w.kv_heads ? 1 : p.splits_of.values[e][k][f],
          .window = p.window.values[e][k][f],
          .block = p.block_of.values[e][k] *
                   (w.late && !is_low_precision ? p.late_block.values[e][k] : 1),
          .efficiency = p.efficiency_by[e],
          .traffic = p.traffic[e],
          .call_us = p.call_us[e],
          .combine_us = p.combine_us[e],
          .single_call = p.single_call.values[e][k][f],
          .single = p.single_of.values[e][k][f]};
}

/// One way of dividing the keys.
struct Parts {
  double seconds = std::numeric_limits<double>::infinity();
  double load = 0, math = 0, share = 1;
};

}  // namespace

CallEstimate estimate_decode(const DecodeWork& w, const TensorBoard& board,
                             const CostProfile& profile) {
  const DecodeParameters& p = w.latent ? profile.attention.latent_decode : profile.attention.decode;
  const std::size_t k = engine_kind(board.kind);
  const bool upcasts = upcasts_cache(w, board);
  const bool is_low_precision = w.fp8_cache && !upcasts;
  Factors x = factors_of(w, p, k, is_low_precision, profile);
  if (is_triton(w, board)) x.factor *= p.triton;
  const double clock = board.clock, sms = board.sms;
  const double cache_bytes = is_low_precision ? 1 : 2;
  const double group = w.heads / w.kv_heads;
  const bool single = by_single_kernels(w) && group > kLargestGroup;
  const bool by_groups = is_by_warp_groups(w, board);
  const XqaKernel xqa = xqa_kernel(w, board);
  const bool by_lanes = single || xqa == XqaKernel::ByLanes;
  const bool by_warps = xqa == XqaKernel::ByWarps;
  // CHOICE by rows of L40S: over an 8-bit cache that kernel leaves all keys of a sequence to one
  // block, and takes 62 keys of 128 values a us however many blocks there are. That TensorRT-LLM
  // does not split some: data/modern/README.md.
  const bool one_part = by_warps && w.fp8_cache;
  const bool swaps = is_flash_attention_2(w, k) && group > 1;
  const bool apart = swaps && w.window > 0;
  const std::optional<DecodeGrid> grid = find_grid(w, board);
  const bool triton_single = w.latent && group == 1 && is_triton(w, board);
  const double slower = std::pow(kCallClock / clock, p.clock_exponent);
  // Blocks that an SM holds at once, and the buffers that it fills: of two blocks, or as much as
  // there is. FlashAttention 3 takes the whole SM: 64,512 of its 65,536 registers (128 threads of
  // 24, 256 of 240), 160 KiB and more of tiles. Source: flash-attention,
  // hopper/flash_fwd_kernel_sm90.h.
  const bool whole = w.latent || by_groups;
  const double residents =
      whole || by_warps ? 1 : std::max(1.0, std::floor(board.shared_kib / kBlockKib));
  const double buffers = std::min(board.shared_kib, grid || by_warps ? kBlockKib
                                                    : whole          ? board.shared_kib
                                                                     : 2 * kBlockKib);

  const bool has_window = w.window > 0 && w.window < w.keys;
  const double seen = has_window ? w.window : w.keys;
  const double read = has_window ? std::min(w.keys, seen + kWindowTile * x.window) : seen;
  const double columns = w.batch * w.kv_heads *
                         (single || apart ? group
                          : grid          ? std::ceil(group / grid->rows)
                                          : 1);
  const double most = std::max(
      1.0,
      std::min(read / p.keys_per_split, grid ? grid->parts : std::max(1.0, p.splits * x.splits)));
  const double wanted = one_part ? 1 : grid ? most : std::max(1.0, sms * p.fill / columns);
  const double stream = p.stream_bytes_per_clock * p.stream_of[k] * x.factor * buffers * clock;
  // Over an 8-bit cache some kernels compute in 8 bits.
  const GemmFormat low_precision = is_low_precision ? GemmFormat::Fp8 : GemmFormat::Half;
  const double top = board.peak(low_precision) / sms;
  const TensorRates rates = board.rates(by_groups ? low_precision : GemmFormat::Half);
  const double rate =
      std::min(0.9 * top, rates.at(p.efficiency * p.efficiency_of[k] * x.efficiency * x.factor));
  const double least = by_groups ? rows_of_warp_groups(w) : kLeastRows;
  const double rows = single  ? p.ungrouped_rows
                      : apart ? kLeastRows
                      : grid  ? grid->rows
                              : std::ceil(group / least) * least;
  // The kernel for single heads multiplies as it reads, without buffers: values a clock, and blocks
  // as many as an SM's threads allow.
  const double single_stream = kFromL2 * clock * cache_bytes / 2 / (p.ungrouped * x.single);
  const double alone = triton_single ? p.triton_single[static_cast<std::size_t>(*w.engine)] : 1;
  const double block =
      p.block_cycles * (by_lanes ? x.single : x.block / residents) / kCallClock * slower;
  const double l2_rate = sms * clock * p.l2_bytes_per_clock;
  const double cache = w.batch * seen * w.kv_heads * w.key_values * cache_bytes;
  const double footprint = cache + w.batch * w.heads * w.width * 4;
  const double kept = board.l2 * p.l2_share / footprint;
  const double miss = 1 / (1 + std::pow(kept, 4));
  const double dram = footprint * miss / (board.bandwidth * std::min(0.97, p.dram_efficiency));
  const double roof = 2 * w.batch * w.heads * seen * w.gemms / (top * sms);

  Parts best;
  const double sharded = single ? 1.0 : std::min(most, wanted);
  for (const double parts : {grid ? sharded : 1.0, sharded}) {
    const double blocks = columns * parts, keys = read / parts;
    const double padded = std::ceil(keys / kKeyTile) * kKeyTile;
    const double per_sm = blocks / sms;
    const double q = p.wave_quantization;
    const double waves = per_sm <= 1 ? 1 : q * std::ceil(per_sm) + (1 - q) * per_sm;
    const double load = waves * w.key_values * cache_bytes * (keys + p.padding * (padded - keys)) /
                        (single ? single_stream : stream) * alone;
    const double math =
        waves * rows * padded * (2 * w.gemms / rate + board.softmax_cycles(p.softmax) / clock);
    const double body = cube_root_sum(slower_of(load, dram), math, 0);
    double seconds = block * waves + std::max(body, roof);
    if (parts > 1) {
      // As many parts as tiles of keys leave.
      const double added = std::max(1.0, read / padded);
      const double results = columns * added * (single || apart ? 1 : group) * w.width * 8;
      seconds += x.combine_us * 1e-6 * slower * (1 - 1 / added) + results / l2_rate;
    }
    if (seconds < best.seconds) best = {seconds, load, math, std::min(1.0, per_sm)};
  }
  const double around =
      x.traffic * w.batch * (2 * w.heads + 2 * w.kv_heads) * w.width * 4 / l2_rate;
  const double single_call = by_single_kernels(w) && (single || group == 1) ? x.single_call : 1;
  // One sequence, or one head of keys, is regrouped without a copy.
  const double copies = swaps && !apart && w.batch > 1 && w.kv_heads > 1 ? p.copy_us : 0;
  const double casts = casts_inputs(w, board) ? p.cast_us : 0;
  // XQA of Hopper's instructions embeds positions and writes the cache, for which the others have a
  // kernel before them. Source: TensorRT-LLM, decoderXQAImplJIT.cpp, applyRoPEInXqaKernel.
  const double embedded = xqa == XqaKernel::ByGroups ? p.embed_us : 0;
  const double kernels = x.call_us * x.call * single_call;
  const double call =
      (std::max(0.5 * kernels, kernels - embedded) + copies + casts) * 1e-6 * slower;
  double others = around;
  if (upcasts) {
    const double values = w.batch * w.keys * w.key_values;
    others += p.upcast_us * 1e-6 * slower + values / (sms * clock * p.upcasts_per_clock);
  }
  if (w.absorbs > 0) {
    // Queries to the latent's width and results back, a GEMM of each head.
    const double latent = w.gemms - w.key_values;
    others += board.library_gemm(w.heads, w.batch, latent, w.absorbs).in_s() +
              board.library_gemm(w.heads, w.batch, w.absorbs, latent).in_s();
  }
  CallEstimate result;
  result.duration = Seconds(call + others + best.seconds);
  if (w.eager)
    result.duration = Seconds(beside_host(p.host_us * p.host_of[k] * 1e-6, result.duration.in_s()));
  result.roofs = {.compute = Seconds(std::max(roof, best.math)),
                  .memory = Seconds(std::max(best.load, dram)),
                  .under_occupied = best.share < 1 || call > best.seconds,
                  .sm_share = best.share};
  result.body_share = w.eager ? (others + best.seconds) / result.duration.in_s()
                              : 1 - Seconds(call) / result.duration;
  return result;
}

}  // namespace tracecast::cost
