#include "sim/cost/tensor_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "sim/cost/sustained_clock.hpp"
#include "sim/cost/tensor_board.hpp"

namespace tracecast::cost {
namespace {

constexpr double kStartClock = 2e9;  // of tensor_gemm.start_us
constexpr double kPartialBytes = 4;
/// Slices of k shorter than this are not offered.
constexpr double kShortestSlice = 128;
/// Most slices of k that TensorRT-LLM's weight-only kernels offer. Source: TensorRT-LLM,
/// cutlass_kernels/fpA_intB_gemm, SPLIT_K_LIMIT.
constexpr double kMostWeightOnlySlices = 7;
/// Values of k that their slices are multiples of. Source: the same, is_valid_split_k_factor;
/// slices add up one after the other (serial split-k).
constexpr double kWeightOnlyDepth = 64;
/// Depth of one instruction's step: 16 values of 16 bits, 8 of 32, 32 of 8.
constexpr double kStepBytes = 32;
constexpr double kHalfBytes = 2;
/// Of L2: an operand smaller than this stays there from sweep to sweep.
constexpr double kLeastDrivenOut = 0.5;
/// Of k in a stage of an engine's kernel, one swizzled row of shared memory. Source: CUTLASS, sm90
/// and sm100 collective builders.
constexpr double kStageBytes = 128;
/// Exponent at which arithmetic, operands and memory of the vendor's kernels overlap:
/// cube_root_sum().
constexpr double kLibraryOverlap = 3;
/// Alignment of rows that 16-byte copies and stores need.
constexpr double kWholeVector = 16;
/// Results of a block whose registers hold them beside operands and scales, where they are fp32 and
/// a warp has 64 by 64.
constexpr double kLargestWithoutSpill = 128 * 128;

/// Threads of TensorRT-LLM's pass with static scales, each of which takes value after value: 1,024
/// blocks of 256. Source: TensorRT-LLM, cpp/tensorrt_llm/common/cudaFp8Utils.cu,
/// invokeQuantizeMatrix before it took eight values at a time.
constexpr double kScalarThreads = 1024 * 256;

/// Values of k that share a scale, where scales are by block.
constexpr double kScaledValues = 128;
constexpr double kKib = 1024;
/// Threads that an SM holds of row_cycles.
constexpr double kRowThreads = 2048;
constexpr int kFewestThreads = 256;

using Tile = GemmTile;
// Tokens by features. Warp-level: 32 by 64 and more, names of cuBLAS's and CUTLASS's s884, s1688
// and s16816 kernels.
constexpr std::array<Tile, 10> kWarpTiles = {{{256, 128},
                                              {128, 256},
                                              {128, 128},
                                              {256, 64},
                                              {64, 256},
                                              {128, 64},
                                              {64, 128},
                                              {64, 64},
                                              {32, 128},
                                              {32, 64}}};
// wgmma: 64 rows an instruction and warp group, 8 to 256 columns. The library computes the
// transposed GEMM of few tokens, in tiles from 8x64 on by the names of its nvjet kernels; they take
// as long as those of least_tokens().
constexpr std::array<Tile, 11> kWarpGroupTiles = {{{128, 256},
                                                   {256, 128},
                                                   {128, 192},
                                                   {192, 128},
                                                   {128, 128},
                                                   {64, 256},
                                                   {256, 64},
                                                   {64, 128},
                                                   {128, 64},
                                                   {64, 64},
                                                   {32, 64}}};
// tcgen05: 64 or 128 rows an SM, 256 over two that share operands; 8 to 256 columns.
constexpr std::array<Tile, 13> kTensorMemoryTiles = {{{256, 256},
                                                      {256, 128},
                                                      {128, 256},
                                                      {128, 192},
                                                      {192, 128},
                                                      {128, 128},
                                                      {256, 64},
                                                      {64, 256},
                                                      {128, 64},
                                                      {64, 128},
                                                      {64, 64},
                                                      {32, 128},
                                                      {32, 64}}};
/// Of tiles that the vendor's library has not before its kernels stay on their SMs (notes/0005).
constexpr int kLateTileEdge = 192;
/// Tokens below which an instruction takes as long, from wgmma on, where it finds both operands in
/// shared memory: 128 bytes a clock give four of its rows of weights, 32 bytes each, which Hopper's
/// tensor cores meanwhile multiply by 32 tokens and Blackwell's by 64.
int least_tokens(MmaKind kind) {
  if (kind < MmaKind::WarpGroup) return 1;
  return kind == MmaKind::WarpGroup ? 32 : 64;
}

std::span<const Tile> tiles_of(MmaKind kind) {
  switch (kind) {
    case MmaKind::Warp:
    case MmaKind::AsyncWarp:
      return kWarpTiles;
    case MmaKind::WarpGroup:
      return kWarpGroupTiles;
    case MmaKind::TensorMemory:
      break;
  }
  return kTensorMemoryTiles;
}

/// Steps from the first generation that copies asynchronously.
double generation_steps(MmaKind kind) {
  return std::max(0.0, static_cast<double>(kind) - static_cast<double>(MmaKind::AsyncWarp));
}

/// Steepness of what misses an L2 as data outgrow it: of two halves as A100's, H100's and B200's
/// rows have it, of one as L40S's. CHOICE: the least power that parts L40S's totals of 100 and 110
/// MB (notes/0005).
constexpr int kMissOfHalves = 4, kMissOfOne = 32;

/// Share of a started wave that early libraries' blocks wait for. One block an SM: a second wave
/// starts and ends with the first one's blocks, those after it ever more apart, since each block
/// starts where one ends. CHOICE by rows: PyTorch's linear layers on H100 (notes/0005).
double whole_waves(double started) { return 1 / std::max(1.0, started - 1); }

/// x to the power 2^j that `exponent` is: the inner loop of a price, where std::pow is not cheap.
double power_of(double x, int exponent) {
  for (; exponent > 1; exponent /= 2) x *= x;
  return x;
}

/// Share of a use that misses L2. Repetitions of one GEMM turn over the same data in the same
/// order: what fits is found, and what does not is driven out just before it comes again, so the
/// step is steep where L2 is one (L40S, 100.7 MB: of 100 MB most is found, of 110 MB nothing;
/// notes/0005), and less so where halves keep some of the data twice.
double miss(double reuse_bytes, double kept_bytes, bool halves) {
  if (!(reuse_bytes > 0)) return 0;
  return 1 / (1 + power_of(kept_bytes / reuse_bytes, halves ? kMissOfHalves : kMissOfOne));
}

/// Whether a row of TensorRT-LLM's scales, one of each token for 128 values, begins where bulk
/// copies cannot: fp32, 16 bytes. Of one row all begin. Source: CUDA Programming Guide, tensor
/// maps; that it pays for it: CHOICE by B200's rows, whose time steps by 4 to 10 us (notes/0005).
bool has_uneven_scales(const TensorGemm& gemm, MmaKind kind) {
  constexpr double kEven = 4;
  return gemm.engine == GemmEngine::TensorRtLlm && gemm.format == GemmFormat::Fp8Block &&
         kind == MmaKind::TensorMemory && gemm.k > kScaledValues && std::fmod(gemm.m, kEven) != 0;
}

/// Whether blocks take tiles along the tokens first, whatever the grid: engines' kernels by CUTLASS
/// 2 with GemmIdentityThreadblockSwizzle of one. Source: sgl-project/sglang,
/// sgl-kernel/csrc/gemm/fp8_gemm_kernel.cu, DeviceGemmFp8RowwiseSm89; NVIDIA/TensorRT-LLM,
/// cutlass_kernels/int8_gemm/int8_gemm_template.h. vLLM's for Ada (csrc/quantization/cutlass_w8a8)
/// take them by ThreadblockSwizzleStreamK, as bands.
bool goes_along_tokens(const TensorGemm& gemm, MmaKind kind, int compute_capability) {
  if (kind != MmaKind::AsyncWarp || compute_capability >= kWorkstationBlackwell) return false;
  const GemmFormat format = gemm.format;
  if (gemm.engine == GemmEngine::SgLang)
    return format == GemmFormat::Fp8 || format == GemmFormat::Fp8Static;
  return gemm.engine == GemmEngine::TensorRtLlm && format == GemmFormat::Int8;
}

}  // namespace

double row_alignment(double values, double bytes) {
  const double row = values * std::max(bytes, 1.0);
  double alignment = 16;
  while (alignment > 1 && std::fmod(row, alignment) != 0) alignment /= 2;
  return alignment;
}

double result_bytes(GemmFormat format) { return format == GemmFormat::Tf32 ? 4 : kHalfBytes; }

double gemm_alignment(const TensorGemm& gemm, bool transpose_a, bool transpose_b, double result) {
  const double bytes = activation_bytes(gemm.format);
  return std::min({row_alignment(transpose_a ? gemm.m : gemm.k, bytes),
                   row_alignment(transpose_b ? gemm.k : gemm.n, bytes),
                   row_alignment(gemm.n, result)});
}

TensorGemmMachine::TensorGemmMachine(const GpuSpec& gpu, GemmFormat format,
                                     const CostProfile& profile, double energy)
    : p_(&profile.tensor_gemm),
      kind_(mma_kind(gpu)),
      format_(format),
      capability_(gpu.compute_capability),
      power_(gpu, profile.tensor_gemm.format(format).energy * energy, profile) {
  const TensorGemmParameters& p = *p_;
  const FormatParameters& f = p.format(format);
  const BoardFactors board = board_factors(profile, gpu);
  sms_ = std::max(gpu.sm_count, 1);
  clock_ = starting_clock(gpu, profile).in_si();
  resident_ = sms_ * std::max(gpu.max_threads_per_sm, kFewestThreads) / kRowThreads;
  const double scale = clock_ / gpu.boost_clock.in_si();
  peak_ = stated_peak(gpu, format).rate.in_si() * scale / sms_;
  const double shared_kib = gpu.shared_memory_per_sm.in_bytes() / 1024;
  const double operand_bytes = element_size(math_of(format)).in_bytes();
  const bool gddr = has_gddr(gpu);
  const double ecc_loss = gddr && gpu.ecc_default_on ? 1 - gpu.ecc_bandwidth_fraction : 0;
  bandwidth_ = gpu.dram_bandwidth.in_si() * (1 - std::min(1.0, p.ecc_cost) * ecc_loss) *
               std::min(0.97, p.dram_efficiency * (gddr ? p.gddr : 1)) * board.bandwidth;
  has_halves_ = has_l2_halves(gpu);
  l2_ = gpu.l2.in_bytes() * (has_halves_ ? 0.5 * p.l2_share : 1);
  block_ = p.block_cycles / clock_;
  stage_ = p.step_cycles[kind_] / clock_;
  a_bytes_ = activation_bytes(format);
  b_bytes_ = weight_bytes(format);
  c_bytes_ = result_bytes(format);
  step_ = kStepBytes / operand_bytes;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(kind_); ++i) {
    const auto kind = static_cast<MmaKind>(i);
    const double steps = generation_steps(kind_) - generation_steps(kind);
    Kernels& k = kernels_[i];
    k.kind = kind;
    const double cut = tensor_cut(gpu, format), older = std::pow(p.warp_share, steps);
    k.whole = peak_ * cut * older;
    k.peak = peak_ * std::min(1.0, std::max(1.0, cut) * older);
    k.share = p.efficiency * p.efficiency_of[kind] * f.efficiency * f.efficiency_of[kind] *
              board.arithmetic;
    k.stream = p.stream_bytes_per_clock * std::pow(p.stream_growth, generation_steps(kind)) *
               p.stream_of[kind] * f.stream * shared_kib * clock_;
    k.start = p.start_us * p.start_of[kind] * 1e-6 * (kStartClock / clock_);
    k.depth = p.block_depth * p.depth_of[kind] * (kHalfBytes / operand_bytes);
  }
}

std::pair<const TensorGemmMachine::Kernels&, double> TensorGemmMachine::kernels_for(
    double alignment) const {
  constexpr double kLeastAsyncCopy = 4;
  const auto of = [&](MmaKind kind) -> const Kernels& {
    return kernels_[static_cast<std::size_t>(std::min(kind, kind_))];
  };
  if (alignment >= kWholeVector) return {of(kind_), 1};
  if (alignment >= kLeastAsyncCopy) return {of(MmaKind::AsyncWarp), p_->unaligned};
  return {of(MmaKind::Warp), kind_ == MmaKind::Warp ? p_->unaligned : p_->unaligned_staged};
}

struct TensorGemmMachine::Grid {
  double mma = 0, load = 0, dram = 0, again = 0, fixed = 0, share = 1;
  int tile_m = 0, tile_n = 0, slices = 1;
};

double TensorGemmMachine::call_seconds(const TensorGemm& gemm) const {
  if (!gemm.engine || format_ == GemmFormat::Half || format_ == GemmFormat::Tf32) return 0;
  if (gemm.is_quantised) return 0;
  const EngineParameters& e = p_->engine(*gemm.engine, format_);
  double seconds = e.call_us * 1e-6 * (kStartClock / clock_) * p_->format(format_).call_of[kind_] *
                   p_->generation(*gemm.engine, format_, kind_).call;
  if (a_bytes_ < 2) {
    const double values = gemm.batch * gemm.m * gemm.k;
    const double passed = values * (2 + a_bytes_);
    const double between = passed + gemm.batch * gemm.n * gemm.k * b_bytes_;
    const double again = gemm.reuse.inputs > 0 ? gemm.reuse.inputs : between;
    const double missed =
        values * (2 * miss(again, l2_, has_halves_) + a_bytes_ * miss(between, l2_, has_halves_));
    double pass = e.traffic * (missed / bandwidth_ + (passed - missed) / kKib *
                                                         p_->pass_cycles_per_kib / (sms_ * clock_));
    if (*gemm.engine == GemmEngine::TensorRtLlm && format_ == GemmFormat::Fp8Static)
      pass = std::max(pass, std::ceil(values / kScalarThreads) * p_->scalar_round_us * 1e-6);
    const double row_slots = resident_ * kStartClock;
    seconds += cube_root_sum(pass, e.value_cycles * values / (kKib * row_slots), 0);
    seconds += e.row_cycles * gemm.batch * gemm.m / row_slots;
    const auto lay_out = [&](double rows, double us, double us_per_million) {
      const double scales = gemm.batch * rows * std::ceil(gemm.k / kScaledValues);
      seconds += (us + us_per_million * scales * 1e-6) * 1e-6;
    };
    if (gemm.packs_scales) {
      lay_out(gemm.n, p_->packed_scales_us, p_->packed_scales_us_per_million);
    }
    if (has_uneven_scales(gemm, kind_)) {
      lay_out(gemm.m, p_->uneven_tokens_us, p_->uneven_tokens_us_per_million);
    }
    if (is_single_token(gemm, kind_, capability_)) seconds += p_->single_token_us * 1e-6;
  }
  return seconds;
}

GemmEstimate TensorGemmMachine::estimate(const TensorGemm& gemm) const {
  const TensorGemmParameters& p = *p_;
  const double m = gemm.m, n = gemm.n, k = gemm.k;
  const bool own_kernels = gemm.engine && format_ != GemmFormat::Half && a_bytes_ < 2 &&
                           !(*gemm.engine == GemmEngine::TensorRtLlm &&
                             (format_ == GemmFormat::Fp8 || format_ == GemmFormat::Fp8Static));
  const EngineParameters* engine =
      gemm.engine && format_ != GemmFormat::Half && format_ != GemmFormat::Tf32
          ? &p.engine(*gemm.engine, format_)
          : nullptr;
  double own_rate =
      engine ? engine->efficiency * p.generation(*gemm.engine, format_, kind_).efficiency : 1;
  double own_stream = engine ? engine->stream : 1;
  if (engine && format_ == GemmFormat::Fp8Static) {
    // The same kernels: what rows of this call say is a factor on what those of the other say.
    const EngineParameters& other = p.engine(*gemm.engine, GemmFormat::Fp8);
    own_rate *= other.efficiency;
    own_stream *= other.stream;
  }
  const auto [kernels, efficiency] = kernels_for(k > 1 ? gemm.alignment : kWholeVector);
  const bool may_be_persistent = kernels.kind >= MmaKind::WarpGroup;
  const bool is_early =
      kernels.kind == MmaKind::WarpGroup && gemm.by_early_library && format_ == GemmFormat::Half;
  const std::span<const Tile> own = engine_tiles(gemm, kind_, capability_);
  const bool is_given = own.size() == 1;
  const double q = is_given ? 1 : may_be_persistent ? p.resident_quantization : p.wave_quantization;
  const double stream = efficiency * kernels.stream * own_stream * (is_early ? p.early_stream : 1);
  const double share =
      std::min(1.0, efficiency * kernels.share * own_rate * (is_early ? p.early_rate : 1));
  const double uncut = 1 / (share * kernels.whole);
  const double lost_to_cut = 1 / kernels.peak - 1 / kernels.whole;
  const double a = gemm.image > 0 ? gemm.image : gemm.batch * m * k * a_bytes_;
  const double b = gemm.batch * n * k * b_bytes_;
  const double c =
      gemm.batch * m * n * (gemm.value_of_result > 0 ? gemm.value_of_result : c_bytes_);
  const bool quantises = engine && a_bytes_ < kHalfBytes && !gemm.is_quantised;
  const double written = gemm.batch * m * k * (kHalfBytes + a_bytes_);
  const double a_reuse =
      quantises ? std::min(gemm.reuse.activations, written) : gemm.reuse.activations;
  const double read = (a + gemm.addend) * miss(a_reuse, l2_, has_halves_) +
                      b * miss(gemm.reuse.weights, l2_, has_halves_);
  const double results = c * miss(gemm.reuse.results, l2_, has_halves_);
  const double dram_bytes = read + results;
  const bool aligned_results = efficiency < 1 && row_alignment(n, c_bytes_) >= kWholeVector;
  const double dram =
      (read / efficiency + results / (aligned_results ? 1 : efficiency)) / bandwidth_;
  const double fill = gemm.fill > 0 ? gemm.fill : kernels.depth;
  const double inverse_sms = 1 / sms_;
  const bool is_alone = holds_sm_alone(gemm, capability_);
  const double overlap = own_kernels ? p.own_overlap : kLibraryOverlap;
  const bool is_weight_only = gemm.engine && a_bytes_ == kHalfBytes && b_bytes_ < kHalfBytes;
  const bool adds_serially = is_weight_only && !own.empty();
  const int least = least_tokens(kernels.kind);
  const bool fills_void = kernels.kind == MmaKind::WarpGroup && own_kernels;
  const bool along_tokens = goes_along_tokens(gemm, kind_, capability_);
  // DeepGEMM's grids have bands, too.
  const bool sweeps_tiles = along_tokens || (own_kernels && kernels.kind >= MmaKind::WarpGroup &&
                                             format_ != GemmFormat::Fp8Block);
  const double band = sweeps_tiles ? 1 : p.band_tiles;
  const double rasterized_least =
      k * (along_tokens ? m * a_bytes_ : std::min(m * a_bytes_, n * b_bytes_));
  const bool may_drive_out = !(gemm.image > 0) && rasterized_least > kLeastDrivenOut * l2_;
  /// Bytes of the operand that a grid sweeps which come from memory again: between two sweeps it
  /// and a band of the other pass.
  const auto rasterized_again = [&](const Tile& tile, double tiles_m, double tiles_n) {
    const bool along_m = along_tokens || tiles_m <= tiles_n;
    const double rasterized = k * (along_m ? m * a_bytes_ : n * b_bytes_);
    const double other = k * (along_m ? n * b_bytes_ : m * a_bytes_);
    const double across = along_m ? tiles_n : tiles_m, along = along_m ? tiles_m : tiles_n;
    const double widest = std::max(
        {band, sms_ / along, static_cast<double>(along_m ? tile.cluster_n : tile.cluster_m)});
    const double width = std::min(across, widest);
    const double between = rasterized + other * width / across;
    return gemm.batch * rasterized * (across / width - 1) * miss(between, l2_, has_halves_);
  };
  Grid best;
  double best_time = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Tile& tile, double grid, double slices, double tile_padding,
                            double again) {
    const double per_sm = grid * slices * inverse_sms;
    const double started = std::ceil(per_sm), in_step = is_early ? whole_waves(started) : q;
    const double waves = per_sm <= 1 ? 1.0 : in_step * started + (1 - in_step) * per_sm;
    const double depth = step_ * std::ceil(k / (slices * step_));
    const double area = static_cast<double>(tile.m) * tile.n, edge = tile.m + tile.n;
    const double slowdown = 1 + p.operand_edge * edge / (2 * area);
    const double computed = std::max(tile.m, least) * tile.n;
    const double mma = tile_padding * waves * 2 * computed *
                       (depth * lost_to_cut + (depth + fill) * slowdown * uncut);
    const double drawn =
        (tile.m * a_bytes_ / tile.share_m + tile.n * b_bytes_ / tile.share_n) * depth / stream;
    const double stages = own_kernels ? std::ceil(depth * a_bytes_ / kStageBytes) * stage_ : 0;
    const double load = tile_padding * waves * cube_root_sum(drawn, stages, 0);
    const double spill = area > kLargestWithoutSpill ? p.single_block_spill : 1;
    const double end = is_alone ? p.single_block_cycles * spill / clock_ : 0;
    double fixed = kernels.start + block_ * waves + end * per_sm;
    if (slices > 1 && adds_serially) {
      fixed += (slices - 1) * p.serial_slice_us * 1e-6 * (kStartClock / clock_);
    } else if (slices > 1) {
      fixed += p.split_us * 1e-6 + 2 * kPartialBytes * gemm.batch * m * n * slices /
                                       (p.split_bytes_per_clock * sms_ * clock_);
    }
    const double memory = dram + again / bandwidth_;
    if (fixed + std::max({mma, load, memory}) >= best_time)
      return;  // the roofs together take longer
    const double time = fixed + overlapped(mma, load, memory, overlap);
    if (time >= best_time) return;
    best_time = time;
    best = {mma,    load,   memory,
            again,  fixed,  std::min(1.0, per_sm),
            tile.m, tile.n, static_cast<int>(slices)};
  };
  // Engines' convolutions slice k among a block's warps, not among blocks: none of their names
  // says split_k.
  const double most_slices = own_kernels || gemm.image > 0 || (is_given && !gemm.engine)
                                 ? 1
                                 : std::min(is_weight_only ? kMostWeightOnlySlices : k,
                                            std::max(1.0, std::floor(k / kShortestSlice)));
  for (const Tile& tile : own.empty() ? tiles_of(kernels.kind) : own) {
    if (is_early && std::max(tile.m, tile.n) == kLateTileEdge) continue;
    const double clusters_m = std::ceil(m / (tile.m * tile.cluster_m));
    const double clusters_n = std::ceil(n / (tile.n * tile.cluster_n));
    const double cluster = static_cast<double>(tile.cluster_m) * tile.cluster_n;
    const double grid = gemm.batch * clusters_m * clusters_n * cluster;
    double tile_padding = 1;
    if (fills_void) {
      const double empty = 1 - m / (clusters_m * tile.cluster_m * tile.m);
      const bool is_fixed = std::fmod(std::floor(sms_ / cluster), clusters_m) == 0;
      tile_padding += p.tile_padding * empty * (is_fixed ? clusters_m : 1);
    }
    const double again = may_drive_out ? rasterized_again(tile, clusters_m * tile.cluster_m,
                                                          clusters_n * tile.cluster_n)
                                       : 0;
    consider(tile, grid, 1, tile_padding, again);
    if (adds_serially) {
      for (double slices = 2; slices <= kMostWeightOnlySlices; ++slices) {
        if (std::fmod(k, slices * kWeightOnlyDepth) == 0)
          consider(tile, grid, slices, tile_padding, again);
      }
      continue;
    }
    const double filling = std::min(most_slices, std::floor(sms_ / grid));
    if (filling < 2) continue;
    consider(tile, grid, filling, tile_padding, again);
    if (filling >= 4) consider(tile, grid, std::floor(filling / 2), tile_padding, again);
    if (2 * filling <= most_slices) consider(tile, grid, 2 * filling, tile_padding, again);
  }

  GemmEstimate result;
  const double flops = 2 * gemm.batch * m * n * k;
  // Below the roofs nothing runs, whatever the parameters say.
  const double least_mma = flops / (peak_ * sms_);
  const double mma = std::max(best.mma, least_mma);
  const TensorLoad load{.flops = flops,
                        .dram_bytes = dram_bytes + best.again,
                        .fixed = Seconds(best.fixed),
                        .arithmetic = Seconds(mma),
                        .operands = Seconds(best.load),
                        .memory = Seconds(best.dram),
                        .overlap = overlap};
  result.throttle = power_.clock_share(load);
  const double busy = duration_at(load, result.throttle).in_s();
  result.duration = Seconds(busy + call_seconds(gemm));
  result.power = power_.power(load, result.throttle);
  result.roofs.compute = Seconds(cube_root_sum(mma, best.load, 0) / result.throttle);
  result.roofs.memory = Seconds(best.dram);
  result.roofs.under_occupied = best.share < 1 || best.fixed > 0.5 * busy;
  result.roofs.sm_share = best.share;
  result.tile_m = best.tile_m;
  result.tile_n = best.tile_n;
  result.split_k = best.slices;
  return result;
}

double gemm_efficiency(const GpuSpec& gpu, const CostProfile& profile) {
  const TensorGemmParameters& p = profile.tensor_gemm;
  constexpr double kLargeTile = 170;  // r of 128x256
  return std::min(1.0, p.efficiency * p.efficiency_of[mma_kind(gpu)] * kLargeTile /
                           (kLargeTile + p.operand_edge));
}

}  // namespace tracecast::cost
