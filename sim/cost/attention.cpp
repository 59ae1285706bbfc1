#include "sim/cost/attention.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/issue.hpp"
#include "sim/cost/tensor_gemm.hpp"

namespace tracecast::cost {
namespace {

constexpr double kQueriesPerBlock = 128;
constexpr double kKeysPerTile = 64;
constexpr double kForwardInstructions = 6, kBackwardInstructions = 12;
constexpr double kSpecialUnitsPerSm = 16;
constexpr double kSplitGemms = 3;  ///< for one of 32-bit operands
constexpr double kSplitTile = 64;
/// Share of Hopper's tensor-core peak that instructions of the generation before reach.
constexpr double kOldInstructionsOnHopper = 0.62;

/// Of tiles that hold `count`, over it.
double whole_tiles(std::int64_t count) {
  const double exact = static_cast<double>(count);
  return std::ceil(exact / kSplitTile) * kSplitTile / exact;
}

/// Heads that no kernel but Triton's takes: TensorRT-LLM's for data-centre Blackwell lack those of
/// 192, which both engines then leave to Triton. Sources: aiconfigurator,
/// collector/sglang/collect_attn.py (use_triton_attention); vllm,
/// v1/attention/backends/flashinfer.py, get_supported_head_sizes (64, 128, 256).
bool is_left_to_triton(double width, MmaKind kind) {
  return kind == MmaKind::TensorMemory && width > 128 && width <= 192;
}

bool is_triton_engine(std::optional<GemmEngine> engine) {
  return engine == GemmEngine::SgLang || engine == GemmEngine::Vllm;
}

/// SGLang runs Triton's on workstation boards of Blackwell throughout: collect_attn.py, sm_version
/// >= 110.
bool is_triton_board(std::optional<GemmEngine> engine, const TensorBoard& board) {
  return engine == GemmEngine::SgLang && board.compute_capability >= kWorkstationBlackwell;
}

}  // namespace

Roofs estimate_attention(const Kernel& kernel, const AttentionWork& work,
                         const SustainedGpu& machine, const GpuSpec& gpu,
                         const CostProfile& profile) {
  const AttentionAttributes& a = work.shape;
  const double rows =
      static_cast<double>(a.batch) * static_cast<double>(a.heads) * static_cast<double>(a.queries);
  const bool on_tensor_cores = kernel.unit == MathUnit::TensorCore;
  const bool splits = on_tensor_cores && kernel.math == Precision::Tf32;
  // Tiles on the diagonal are computed whole, and of short sequences those at the edge.
  double scores = a.scores();
  if (a.causal) {
    scores += 0.5 * rows * std::min(kKeysPerTile, static_cast<double>(a.keys));
  } else if (splits) {
    scores *= whole_tiles(a.queries) * whole_tiles(a.keys);
  }
  const double efficiency = splits            ? profile.recorded.split_attention / kSplitGemms
                            : on_tensor_cores ? gemm_efficiency(gpu, profile)
                                              : library_efficiency(gpu, profile);
  const double issue =
      on_tensor_cores && mma_kind(gpu) >= MmaKind::WarpGroup ? kOldInstructionsOnHopper : 1.0;
  const double sms = machine.sm_count;
  const double gemms = work.gemms * scores * static_cast<double>(a.width + a.width_of_values()) /
                       (machine.arithmetic.in_si() * efficiency * issue);
  const double instructions = work.gemms > 2 ? kBackwardInstructions : kForwardInstructions;
  const double cycles = instructions / gpu.fp32_lanes_per_sm + 1.0 / kSpecialUnitsPerSm;
  const double softmax = scores * cycles / (sms * machine.clock.in_si());
  const double blocks = rows / static_cast<double>(a.queries) *
                        std::ceil(static_cast<double>(a.queries) / kQueriesPerBlock);
  const double filled = std::min(1.0, blocks / sms);
  return {.compute = Seconds((gemms + softmax) / filled),
          .memory = kernel.bytes() / machine.stream,
          .under_occupied = filled < 1,
          .sm_share = filled};
}

bool is_triton(const PrefillWork& w, const TensorBoard& board) {
  // Of latent prompts vLLM expands keys and values for FlashAttention; SGLang does so on
  // data-centre Blackwell alone.
  if (w.latent)
    return w.absorbed && w.engine == GemmEngine::SgLang && board.kind == MmaKind::AsyncWarp;
  if (!is_triton_engine(w.engine)) return false;
  return is_left_to_triton(w.key_width, board.kind) || is_triton_board(w.engine, board);
}

bool is_triton(const DecodeWork& w, const TensorBoard& board) {
  if (!is_triton_engine(w.engine)) return false;
  // Latent caches: FlashMLA and FlashAttention 3 are of Hopper, CUTLASS's and TensorRT-LLM's of
  // data-centre Blackwell.
  if (w.latent) return board.kind == MmaKind::AsyncWarp;
  return is_left_to_triton(w.width, board.kind) || is_triton_board(w.engine, board);
}

std::optional<DecodeGrid> find_grid(const DecodeWork& w, const TensorBoard& board) {
  // TensorRT-LLM's prompt kernel 64 x 32 x 576, heads as its rows, keys in one part:
  // kernels/fmha_v2, for 8.x.
  if (w.latent && w.engine == GemmEngine::TensorRtLlm && board.compute_capability / 10 == 8)
    return DecodeGrid{.rows = 64, .parts = 1};
  if (!is_triton(w, board)) return std::nullopt;
  // BLOCK_H of triton_ops/decode_attention.py, which both engines have; parts: num_kv_splits of
  // vllm, mla/triton_mla.py, its segments of triton_unified_attention.py; sglang,
  // layers/attention/triton_backend.py, get_num_kv_splits_triton.
  constexpr double kRows = 16, kMostParts = 8;
  if (w.engine == GemmEngine::Vllm)
    return DecodeGrid{.rows = kRows, .parts = w.latent ? 4.0 : 16.0};
  const double columns = w.batch * w.kv_heads * std::ceil(w.heads / w.kv_heads / kRows);
  const double cores = board.sms * std::max(1.0, std::log2(w.keys / 64));
  return DecodeGrid{.rows = kRows, .parts = std::clamp(cores / columns, 1.0, kMostParts)};
}

bool upcasts_cache(const PrefillWork& w, const TensorBoard& board) {
  return w.latent && w.absorbed && w.format == AttentionFormat::HalfOver8 &&
         w.engine == GemmEngine::SgLang && board.kind == MmaKind::WarpGroup;
}

bool upcasts_cache(const DecodeWork& w, const TensorBoard& board) {
  return w.latent && w.fp8_cache && w.engine == GemmEngine::SgLang &&
         board.kind == MmaKind::WarpGroup;
}

std::optional<DecodeWork> as_decode(const PrefillWork& w) {
  if (w.engine != GemmEngine::Vllm) return std::nullopt;
  if (w.latent || w.tokens > 1 || !w.causal || w.gemms > 2 || w.by_warps) return std::nullopt;
  DecodeWork decode;
  decode.batch = w.batch;
  decode.keys = w.keys > 0 ? w.keys : 1;
  decode.heads = w.heads;
  decode.kv_heads = w.kv_heads;
  decode.width = w.key_width;
  decode.key_values = decode.gemms = w.key_width + w.value_width;
  decode.window = w.window;
  decode.fp8_cache = w.format != AttentionFormat::Half;
  decode.casts = w.casts;
  decode.late = w.late;
  decode.eager = w.eager;
  decode.engine = w.engine;
  return decode;
}

bool casts_inputs(const PrefillWork& w, const TensorBoard& board) {
  return w.casts && !w.latent && w.format == AttentionFormat::Fp8 &&
         w.engine == GemmEngine::SgLang && board.kind == MmaKind::TensorMemory &&
         !is_triton(w, board);
}

bool casts_inputs(const DecodeWork& w, const TensorBoard& board) {
  // Heads of 192 have values of 128, and FlashAttention 3 wants both as wide in 8 bits (sgl-kernel,
  // tests/test_flash_attention.py); that kernels before it see to that is a CHOICE by rows: calls
  // of one key are 10 us longer.
  if (!w.latent && w.fp8_cache && w.engine == GemmEngine::SgLang &&
      board.kind == MmaKind::WarpGroup && w.width > 128 && w.width <= 192)
    return true;
  return w.casts && !w.latent && w.fp8_cache && w.engine == GemmEngine::SgLang &&
         board.kind == MmaKind::TensorMemory && !is_triton(w, board);
}

}  // namespace tracecast::cost
