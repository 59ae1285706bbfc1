#include "sim/cost/prefill.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/attention.hpp"

namespace tracecast::cost {
namespace {

constexpr double kTile = 128, kLeastRows = 16;
constexpr double kCallClock = 2e9;

/// Factors of an engine, or 1 without one.
template <class Values>
double of_engine(const std::optional<GemmEngine>& engine, const Values& value_of) {
  return engine ? value_of(static_cast<std::size_t>(*engine)) : 1.0;
}

/// Kernels before and after attention, microseconds at 2 GHz.
double call_us(const PrefillWork& w, const PrefillParameters& p, std::size_t k,
               const CostProfile& profile) {
  if (!w.engine) return profile.tensor_gemm.start_us;
  const auto e = static_cast<std::size_t>(*w.engine);
  const double low_precision =
      w.format == AttentionFormat::Fp8 ? p.low_precision_call.values[e][k] : 1;
  const double late = w.late ? p.late_call.values[e][k] : 1;
  const double all = p.call_us[e] * p.call_of.values[e][k] * low_precision * late;
  return w.writes_cache ? all : std::max(0.5 * all, all - p.write_us);
}

/// Blocks of queries and the tiles of keys they pass over.
struct Tiling {
  double heads, rows, blocks, tiles, most, filled;
};

/// Whether a block takes queries of several heads that share keys. TensorRT-LLM's kernels do not,
/// and SGLang runs those from Blackwell on; vLLM's do where they are of Hopper's (FlashAttention
/// 3); its single tokens are decoded. CHOICE by rows of four boards: notes/0006.
bool packs_groups(std::optional<GemmEngine> engine, MmaKind kind) {
  if (engine == GemmEngine::TensorRtLlm) return false;
  if (engine == GemmEngine::SgLang) return kind != MmaKind::TensorMemory;
  if (engine == GemmEngine::Vllm) return kind == MmaKind::WarpGroup;
  return true;
}

/// Whose rows FlashAttention 2 was fitted to: vLLM runs it on Ampere (vllm-flash-attn).
constexpr GemmEngine kFlashAttention2 = GemmEngine::Vllm;

/// Whose figures the kernel has. Without an engine's call around it, Ampere's instructions:
/// FlashAttention 2, which PyTorch and training programs run. Later ones: what engines have in
/// common. CHOICE in view of llm-foundry's rows: notes/0006.
std::optional<GemmEngine> figures_of(const PrefillWork& w, MmaKind kind) {
  if (w.engine || w.latent || kind != MmaKind::AsyncWarp) return w.engine;
  return kFlashAttention2;
}

/// Whether a kernel passes over all keys, whatever the window, and masks them: SGLang's in Triton
/// do (is_triton). That windows of narrow heads before Hopper and of wide ones on Hopper are
/// Triton's, too, is a CHOICE by rows: they take as long with a window of 128 as without
/// (notes/0006).
bool masks_windows(const PrefillWork& w, const TensorBoard& board) {
  if (w.engine != GemmEngine::SgLang || !(w.window > 0)) return false;
  if (is_triton(w, board)) return true;
  if (board.kind == MmaKind::WarpGroup) return w.key_width > 192;
  return board.kind < MmaKind::WarpGroup && w.key_width <= 64;
}

/// Heads that a block of its own takes, or packs of them, where packs are fewer.
Tiling tile(const PrefillWork& w, bool packs, bool masks, double window_tiles) {
  const double group = w.heads / w.kv_heads;
  const double n = std::ceil(w.tokens / kTile);
  const double packed = std::ceil(w.tokens * group / kTile);
  const bool is_packed = packs && n == 1 && packed < group;
  const double padded = std::ceil(w.tokens / kLeastRows) * kLeastRows;
  Tiling t{};
  t.heads = is_packed ? w.kv_heads * packed : w.heads;
  const double rows = is_packed ? std::ceil(w.tokens * group / kLeastRows) * kLeastRows : padded;
  t.rows = n == 1 ? std::min(rows, kTile) : kTile;
  t.filled = n == 1 ? t.rows * padded / (kTile * kTile) : 1;
  t.blocks = n;
  t.tiles = n * (n + 1) / 2;
  t.most = n;
  if (!w.causal) {
    const double keys = w.keys > 0 ? w.keys : w.tokens;
    t.most = std::ceil(keys / kTile);
    t.tiles = n * t.most;
    return t;
  }
  if (w.window > 0 && w.window < w.tokens && !masks) {
    const double depth = std::min(n, std::ceil((w.window - 1) / kTile) + 1);
    t.tiles = std::min(t.tiles, depth * (depth + 1) / 2 + (n - depth) * depth + window_tiles * n);
    t.most = std::min(n, depth + window_tiles);
  }
  return t;
}

}  // namespace

double beside_host(double host, double gpu) {
  if (!(host > 0)) return gpu;
  return host * std::pow(1 + std::pow(gpu / host, 6), 1.0 / 6);
}

CallEstimate estimate_prefill(const PrefillWork& w, const TensorBoard& board,
                              const CostProfile& profile) {
  const PrefillParameters& p =
      w.latent ? profile.attention.latent_prefill : profile.attention.prefill;
  const MmaKind kind = w.by_warps ? std::min(board.kind, MmaKind::AsyncWarp) : board.kind;
  const std::size_t k = engine_kind(kind);
  const std::optional<GemmEngine> kernels = figures_of(w, kind);
  const bool upcasts = upcasts_cache(w, board);
  const AttentionFormat format = upcasts ? AttentionFormat::Half : w.format;
  const auto f = static_cast<std::size_t>(format);
  const std::size_t width = w.latent ? (w.absorbed ? 1 : 0) : head_width_class(w.key_width);
  // FlashAttention 2 wants values as wide as keys; vLLM pads them.
  const bool pads_values = w.latent && w.engine == GemmEngine::Vllm && kind == MmaKind::AsyncWarp;
  const double value_width = pads_values ? w.key_width : w.value_width;
  const bool masks = masks_windows(w, board);
  // Where only windows are Triton's, the factor is that of the kernel without them.
  const double factor =
      of_engine(kernels, [&](std::size_t e) { return p.factor.values[e][k][f][width]; }) *
      ((masks && kind == MmaKind::WarpGroup) || is_triton(w, board) ? p.triton : 1);
  const bool packs = packs_groups(kernels, kind);
  const double clock = board.clock;
  const GemmFormat math = w.in_integers                    ? GemmFormat::Int8
                          : format == AttentionFormat::Fp8 ? GemmFormat::Fp8
                                                           : GemmFormat::Half;
  const double generations = static_cast<double>(board.kind) - static_cast<double>(kind);
  const TensorRates rates = board.rates(math);
  const double older = std::pow(profile.tensor_gemm.warp_share, generations);
  // Over an 8-bit cache some kernels compute in 8 bits.
  const double top = format == AttentionFormat::HalfOver8
                         ? board.peak(GemmFormat::Fp8) / board.sms
                         : std::min(rates.peak, older * rates.whole);
  const double wide = 1 + p.wide * std::max(0.0, w.key_width / kTile - 1);
  const double efficiency = older * p.efficiency * p.efficiency_of[k] * factor;
  const double rate = std::min(0.98 * top, rates.at(efficiency / wide));

  const Tiling t = tile(w, packs, masks,
                        of_engine(kernels, [&](std::size_t e) { return p.window.values[e][k]; }));
  const double score = kTile * kTile;
  const double widths = w.key_width + value_width;
  const double gemms = 2 * score * widths / rate;
  const double per_score = p.softmax * p.softmax_of[k] *
                           of_engine(kernels, [&](std::size_t e) { return p.softmax_by[e]; });
  const double softmax = score * board.softmax_cycles(per_score) / clock;
  const double tile =
      std::pow(std::pow(gemms, p.overlap) + std::pow(softmax, p.overlap), 1 / p.overlap) * t.filled;
  const double block =
      (p.block_cycles * of_engine(kernels, [&](std::size_t e) { return p.block_of.values[e][k]; }) +
       p.tile_cycles * t.rows / kTile * w.key_width / kTile) /
      clock;
  const double columns = w.batch * t.heads;
  const double longest = block + p.latency_cycles / clock + t.most * (tile + p.key_cycles / clock);
  const double total = columns * (t.blocks * block + t.tiles * tile) / board.sms;
  double compute = std::max(longest, total + p.tail * longest);
  // Gradients make more GEMMs, and as much more between them.
  compute *= 0.5 * w.gemms;
  const double flops = w.gemms * columns * t.tiles * t.filled * score * widths;
  compute *= board.slowdown(math, p.energy, flops, compute);
  // Never below what the peak allows for the scores that count.
  const double seen = !w.causal ? w.tokens * (w.keys > 0 ? w.keys : w.tokens)
                      : w.window > 0 && w.window < w.tokens
                          ? w.window * w.tokens - w.window * (w.window - 1) / 2
                          : w.tokens * (w.tokens + 1) / 2;
  compute = std::max(compute, w.gemms * w.batch * w.heads * seen * (w.key_width + w.value_width) /
                                  (top * board.sms));

  const double cache_bytes = w.format == AttentionFormat::Half ? 2 : 1;
  const double tokens = w.batch * w.tokens;
  const double query_bytes = w.in_integers ? 1 : 2;
  const double queries = tokens * w.heads * (w.key_width + w.value_width) * query_bytes;
  const double cached = w.batch * (w.causal || w.keys <= 0 ? w.tokens : w.keys);
  const double keys = cached * w.kv_heads * (w.key_width + w.value_width);
  const double footprint = queries + keys * (2 + cache_bytes);
  const double kept = board.l2 * p.l2_share / footprint;
  const double miss = 1 / (1 + kept * kept);
  const double bandwidth = board.bandwidth * p.dram_efficiency;
  const double l2_rate = board.sms * clock * p.l2_bytes_per_clock;
  const auto seconds = [&](double bytes) { return bytes * (miss / bandwidth + 1 / l2_rate); };
  const double memory = 0.5 * w.gemms * seconds(queries + keys * cache_bytes);
  const double body = std::cbrt(compute * compute * compute + memory * memory * memory);

  // TensorRT-LLM embeds positions in a kernel of its own, which passes over queries, too.
  double copied =
      w.engine == GemmEngine::TensorRtLlm
          ? 2 * tokens *
                (w.heads * 2 * w.key_width + w.kv_heads * 2 * w.key_width * (2 + cache_bytes) / 2)
          : keys * (2 + cache_bytes);
  if (!w.writes_cache) copied = 0;
  // Keys are put together from what the latent gives and the position's part; values padded.
  if (w.expands > 0) {
    copied = tokens * (w.expands + w.key_width - w.value_width) * (2 + cache_bytes) +
             2 * cached * w.heads * (w.value_width + w.key_width) * (pads_values ? 3 : 1);
  }
  double around = w.engine ? p.traffic[static_cast<std::size_t>(*w.engine)] * seconds(copied) : 0;
  if (upcasts) around += cached * w.key_width / (board.sms * clock * p.upcasts_per_clock);
  if (w.expands > 0) {
    const double features = w.heads * (2 * w.value_width);
    around += board.library_gemm(1, cached, features, w.expands).in_s();
  }
  const double slower = std::pow(kCallClock / clock, p.clock_exponent);
  const double call = call_us(w, p, k, profile) * 1e-6 * slower +
                      (casts_inputs(w, board) ? p.cast_us * 1e-6 * slower : 0);
  CallEstimate result;
  result.duration = Seconds(call + body + around);
  if (w.eager)
    result.duration = Seconds(beside_host(p.host_us * p.host_of[k] * 1e-6, result.duration.in_s()));
  const double share = std::min(1.0, columns * t.blocks / board.sms);
  result.roofs = {.compute = Seconds(compute),
                  .memory = Seconds(memory),
                  .under_occupied = share < 1 || call > body,
                  .sm_share = share};
  result.body_share =
      w.eager ? (body + around) / result.duration.in_s() : 1 - Seconds(call) / result.duration;
  return result;
}

}  // namespace tracecast::cost
