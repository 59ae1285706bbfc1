#include "sim/cost/tensor_gemm.hpp"

#include <array>
#include <span>

#include "sim/cost/tensor_board.hpp"

namespace tracecast::cost {
namespace {

constexpr int kAda = 89;

/// Source: NVIDIA/TensorRT-LLM, cutlass_kernels/cutlass_heuristic.cpp, get_candidate_tiles:
/// WeightOnly of Turing and later. The plug-in of 8-bit and 4-bit weights times all of them.
constexpr std::array<GemmTile, 5> kWeightOnlyTiles = {
    {{128, 128}, {64, 128}, {32, 128}, {16, 256}, {16, 128}}};
/// Up to four tokens its SmoothQuant plug-in takes a kernel of vectors on CUDA cores, whose blocks
/// hold a few features and divide k among their threads. Source: the same,
/// kernels/weightOnlyBatchedGemv, int8SQ. Eight features: a guess. The plug-in of narrow weights
/// has such kernels, too, which the tables contradict (A100's 4-bit weights 15.0 % for 12.5).
constexpr double kMostVectorTokens = 4;
constexpr std::array<GemmTile, 1> kVectorTile = {{{4, 8}}};

/// Source: the same repository, fp4_gemm/nvfp4_nvfp4_gemm_template_sm100.h: 128 tokens an SM at
/// least; the first is the default (thop/fp4Gemm.cpp, getDefaultGemmConfig).
constexpr std::array<GemmTile, 3> kFoursTiles = {{{128, 256}, {128, 128}, {128, 64}}};

/// Pixels by channels of convolutions before Ampere. Source: names of tactics in TensorRT's logs
/// for T4 and Xavier: {volta_h884cudnn,turing_h1688cudnn}_{256x128,256x64,128x128}_ldg8,
/// sm7x_xmma_fprop_implicit_gemm_..._tilesize128x64x32.
constexpr std::array<GemmTile, 4> kEarlyConvolutionTiles = {
    {{256, 128}, {256, 64}, {128, 128}, {128, 64}}};

/// A tile that a span may point to.
template <int kM, int kN>
constexpr std::array<GemmTile, 1> kOnly = {{{.m = kM, .n = kN}}};
/// The same in clusters.
template <int kM, int kN, int kClusterM, int kClusterN>
constexpr std::array<GemmTile, 1> kClusters = {
    {{.m = kM, .n = kN, .cluster_m = kClusterM, .cluster_n = kClusterN}}};
/// The same where an instruction lies over two of the cluster's SMs, each with its own rows and
/// half of the columns: rows are tokens where the cluster is even along them, else features.
/// Source: CUTLASS, sm100 collective builder, and PTX ISA, tcgen05.mma.cta_group::2.
template <int kM, int kN, int kClusterM, int kClusterN>
constexpr std::array<GemmTile, 1> kPairs = {{{.m = kM,
                                              .n = kN,
                                              .cluster_m = kClusterM,
                                              .cluster_n = kClusterN,
                                              .share_m = kClusterM % 2 == 0 ? 1 : 2,
                                              .share_n = kClusterM % 2 == 0 ? 2 : 1}}};

/// Up to so many tokens and features vLLM has tiles of 16 tokens on Ada.
constexpr double kFewTokensOnAda = 16, kFewFeaturesOnAda = 16384;

/// Source: vLLM, csrc/quantization/cutlass_w8a8, scaled_mm_c2x_sm89_fp8_dispatch.cuh; powers of two
/// of features and tokens, from 16 on, in earlier versions from 32 on.
std::span<const GemmTile> vllm_on_ada(double m, double n) {
  if (m <= kFewTokensOnAda && n <= kFewFeaturesOnAda)
    return n <= 8192 ? kOnly<16, 64> : kOnly<16, 128>;
  if (m <= 32) return n > 8192 && n <= 16384 ? kOnly<32, 128> : kOnly<32, 64>;
  if (m <= 64) return n > 8192 && n <= 16384 ? kOnly<64, 128> : kOnly<64, 64>;
  if (m <= 128) return n <= 8192 ? kOnly<64, 128> : n <= 16384 ? kOnly<128, 128> : kOnly<128, 64>;
  if (m <= 256) return n <= 4096 ? kOnly<64, 128> : kOnly<128, 128>;
  return n > 4096 && n <= 8192 ? kOnly<256, 128> : kOnly<128, 128>;
}

/// Source: the same, c3x/scaled_mm_sm120_fp8_dispatch.cuh.
std::span<const GemmTile> vllm_on_workstations(double m) {
  if (m <= 16) return kOnly<16, 64>;
  if (m <= 32) return kOnly<32, 64>;
  return m <= 256 ? kOnly<64, 64> : kOnly<128, 128>;
}

/// Source: the same, scaled_mm_sm90_fp8_dispatch.cuh and its like for sm100, whose tiles of 128 and
/// 256 rows lie over two SMs; up to 64 tokens the rows are features.
std::span<const GemmTile> vllm_tiles(double m, double n, MmaKind kind, int compute_capability) {
  if (compute_capability >= kWorkstationBlackwell) return vllm_on_workstations(m);
  if (kind == MmaKind::AsyncWarp) return vllm_on_ada(m, n);
  if (kind == MmaKind::TensorMemory) {
    if (m <= 16) return kPairs<32, 64, 1, 4>;
    if (m <= 64) return kPairs<64, 64, 1, 4>;
    return m <= 256 ? kPairs<64, 128, 2, 1> : kPairs<128, 128, 2, 2>;
  }
  if (m <= 16) return n <= 1280 ? kClusters<16, 64, 2, 1> : kOnly<16, 64>;
  if (m <= 64) return n <= 1280 ? kClusters<16, 64, 4, 1> : kOnly<64, 64>;
  return m <= 128 ? kClusters<64, 128, 2, 1> : kClusters<128, 128, 2, 1>;
}

/// Source: sgl-project/sglang, sgl-kernel/csrc/gemm/fp8_gemm_kernel.cu, sm89_fp8_dispatch_shape.
std::span<const GemmTile> sglang_on_ada(double m, double n) {
  if (m <= 1) return n <= 8192 ? kOnly<16, 64> : kOnly<32, 64>;
  if (m <= 16) return n > 8192 && n <= 16384 ? kOnly<32, 64> : kOnly<16, 64>;
  if (m <= 64) return n <= 16384 ? kOnly<32, 64> : kOnly<16, 64>;
  if (m <= 128) return n <= 16384 ? kOnly<64, 64> : kOnly<32, 64>;
  if (m <= 256) return n > 8192 && n <= 16384 ? kOnly<64, 128> : kOnly<128, 64>;
  return kOnly<128, 128>;
}

/// Source: the same file, sm90_fp8_dispatch_shape, sm100_fp8_dispatch_bias and
/// sm120_fp8_dispatch_bias.
std::span<const GemmTile> sglang_tiles(double m, double n, MmaKind kind, int compute_capability) {
  if (compute_capability >= kWorkstationBlackwell) return kOnly<128, 128>;
  if (kind == MmaKind::AsyncWarp) return sglang_on_ada(m, n);
  if (kind == MmaKind::WarpGroup) {
    if (m <= 1) return kClusters<64, 64, 1, 8>;
    if (m <= 64) return kClusters<64, 64, 1, 4>;
    if (m <= 256) return kOnly<64, 64>;
    return m <= 1024 ? kOnly<128, 128> : kClusters<128, 128, 2, 1>;
  }
  if (m <= 16) return kClusters<64, 64, 1, 4>;
  if (m <= 64) return kOnly<64, 64>;
  return m <= 256 ? kPairs<64, 128, 2, 1> : kPairs<128, 128, 2, 2>;
}

/// DeepGEMM's of early 2025 on Hopper, from which TensorRT-LLM has its kernels of floats with
/// scales by block: as many features as waste least of the last wave. Source: deepseek-ai/DeepGEMM,
/// deep_gemm/jit_kernels/gemm.py, get_best_configs. SGLang's later ones choose tokens freely.
constexpr std::array<GemmTile, 4> kFewTokensByBlocks = {{{64, 128}, {64, 96}, {64, 64}, {64, 32}}};
constexpr std::array<GemmTile, 5> kTokensByBlocks = {
    {{128, 160}, {128, 128}, {128, 96}, {128, 64}, {128, 32}}};
std::span<const GemmTile> block_tiles(double m) {
  if (m <= 64) return kFewTokensByBlocks;
  return kTokensByBlocks;
}

bool is_scaled_fp8(GemmFormat format) {
  return format == GemmFormat::Fp8 || format == GemmFormat::Fp8Static;
}

}  // namespace

std::span<const GemmTile> engine_tiles(const TensorGemm& gemm, MmaKind kind,
                                       int compute_capability) {
  // CHOICE by PipeWeave's rows of H100: up to 132 tiles of 128 x 128 take as long as one, whatever
  // m and n, and go with k alone.
  if (!gemm.engine && gemm.is_untuned && is_scaled_fp8(gemm.format) && kind == MmaKind::WarpGroup) {
    return kOnly<128, 128>;
  }
  if (gemm.image > 0 && kind == MmaKind::Warp) return kEarlyConvolutionTiles;
  if (!gemm.engine || kind == MmaKind::Warp) return {};
  const bool is_weight_only =
      gemm.format == GemmFormat::Int8Weights || gemm.format == GemmFormat::Int4Weights;
  if (gemm.format == GemmFormat::Fp8Block && kind == MmaKind::WarpGroup &&
      *gemm.engine == GemmEngine::TensorRtLlm) {
    return block_tiles(gemm.m);
  }
  switch (*gemm.engine) {
    case GemmEngine::TensorRtLlm:
      if (is_weight_only && kind == MmaKind::AsyncWarp) return kWeightOnlyTiles;
      if (gemm.format == GemmFormat::Int8 && gemm.m <= kMostVectorTokens) return kVectorTile;
      if (gemm.format == GemmFormat::Fp4 && kind == MmaKind::TensorMemory)
        return std::span(kFoursTiles).first(gemm.is_untuned ? 1 : kFoursTiles.size());
      return {};
    case GemmEngine::SgLang:
      if (!is_scaled_fp8(gemm.format)) return {};
      return sglang_tiles(gemm.m, gemm.n, kind, compute_capability);
    case GemmEngine::Vllm:
      if (is_single_token(gemm, kind, compute_capability)) return {};
      if (!is_scaled_fp8(gemm.format)) return {};
      return vllm_tiles(gemm.m, gemm.n, kind, compute_capability);
  }
  return {};
}

bool is_single_token(const TensorGemm& gemm, MmaKind kind, int compute_capability) {
  return gemm.engine == GemmEngine::Vllm && gemm.format == GemmFormat::Fp8 &&
         kind == MmaKind::TensorMemory && compute_capability < kWorkstationBlackwell &&
         gemm.batch * gemm.m == 1;
}

// CHOICE by rows of L40S: tiles of 16 tokens end at once.
bool holds_sm_alone(const TensorGemm& gemm, int compute_capability) {
  const bool ends_at_once = gemm.m <= kFewTokensOnAda && gemm.n <= kFewFeaturesOnAda;
  return !ends_at_once && gemm.engine == GemmEngine::Vllm && is_scaled_fp8(gemm.format) &&
         compute_capability == kAda;
}

}  // namespace tracecast::cost
