#include "sim/cost/tile_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/cost/issue.hpp"
#include "sim/cost/tensor_board.hpp"

namespace tracecast::cost {
namespace {

/// Registers of one thread in a tile kernel: 128 keep 64 accumulators and the operands of a 128x128
/// tile. Source: occupancy of recorded sgemm launches (512 threads per SM of 64 Ki registers).
constexpr double kRegistersPerThread = 128;

struct Tile {
  int n, m, threads;
  int parts = 1;  ///< of k, among as many groups of so many threads
};
// Tiles of cuBLAS's sgemm kernels, from the kernel names in recorded runs (COST_MODEL.md 2.1).
constexpr std::array<Tile, 8> kCudaCoreTiles = {{{128, 128, 256},
                                                 {128, 64, 128},
                                                 {64, 128, 128},
                                                 {64, 64, 64},
                                                 {32, 128, 256},
                                                 {128, 32, 256},
                                                 {64, 32, 256},
                                                 {32, 32, 128}}};
// Tiles of cuBLAS's and cuDNN's tensor-core kernels (h884, s1688, s16816 and later kernel names),
// and those for 32 channels: sm80_xmma_fprop_implicit_gemm_..._tilesize128x32x32 and 256x32x32,
// sm75_..._tilesize128x32x64, sm80_xmma_wgrad_..._tilesize32x256x32, each of four warps.
constexpr std::array<Tile, 9> kTensorTiles = {{{256, 128, 256},
                                               {128, 256, 256},
                                               {128, 128, 256},
                                               {64, 128, 128},
                                               {64, 64, 128},
                                               {32, 256, 128},
                                               {256, 32, 128},
                                               {32, 128, 128},
                                               {128, 32, 128}}};
constexpr std::size_t kWideTensorTiles = 5;
constexpr std::array<int, 9> kSplits = {2, 3, 4, 8, 16, 32, 64, 128, 256};

// What cublasLt picks for GEMMs with a bias before Volta, whatever their size. Source:
// data/kernels/gemm.csv.gz, all 7,463 recorded linear layers of P100 and 6,423 of P4's 7,397
// (maxwell_sgemm_64x64_tn, _32x128_tn, _128x32_tn).
constexpr std::array<Tile, 3> kCublasLtTiles = {{{64, 64, 64}, {32, 128, 256}, {128, 32, 256}}};

// Tiles of cuDNN's convolution kernels (maxwell_scudnn_128x..., volta_scudnn_128x...), and those
// that TensorRT tries beside them (volta_scudnn_128x64_sliced1x2_ldg4_relu_exp_small_nhwc_tn_v1,
// ..._128x32_sliced1x4_...: NVIDIA/TensorRT, issue 1090).
constexpr std::array<Tile, 5> kConvolutionTiles = {
    {{128, 128, 256}, {64, 128, 128}, {32, 128, 64}, {64, 128, 128, 2}, {32, 128, 64, 4}}};
constexpr std::size_t kWholeConvolutionTiles = 3;

/// Blocks per SM beyond which slices of k gain nothing.
constexpr double kUsefulBlocks = 4;

// Tiles of cuDNN's GEMMs of spectra (maxwell_gcgemm_64x64, volta_gcgemm_64x32 and so on).
constexpr std::array<Tile, 3> kSpectraTiles = {{{64, 64, 256}, {64, 32, 128}, {32, 32, 64}}};

/// Rows (or columns) up to which the library takes a matrix-vector kernel instead of tiles: it
/// reads the large operand once for all of them. Source: data/kernels_tf dense rows; on K40 and K80
/// the bandwidth of the weights is flat (155 to 160 GB/s) up to batch 8 and drops to a third at 9;
/// other generations drop less, at 5.
constexpr double kMostVectors = 8;

std::span<const Tile> tiles_of(TileSet set, Architecture architecture) {
  switch (set) {
    case TileSet::Convolution:
      return std::span(kConvolutionTiles).first(kWholeConvolutionTiles);
    case TileSet::EngineConvolution:
      return kConvolutionTiles;
    case TileSet::Spectra:
      return kSpectraTiles;
    case TileSet::TensorCore:
      return std::span(kTensorTiles).first(kWideTensorTiles);
    case TileSet::SmallTensorCore:
      return kTensorTiles;
    case TileSet::Batched:
      // The one tile cuBLAS takes in a family (more than 99 % of recorded launches); others search.
      if (architecture == Architecture::Pascal) return std::span(kCudaCoreTiles).subspan(1, 1);
      if (architecture == Architecture::Ampere || architecture == Architecture::Ada) {
        return std::span(kCudaCoreTiles).first(1);
      }
      return kCudaCoreTiles;
    case TileSet::CublasLt:
      if (architecture < Architecture::Volta) return kCublasLtTiles;
      break;
    case TileSet::Gemm:
      break;
  }
  return kCudaCoreTiles;
}

/// What operands cost beside the multiply-adds in a matrix library's kernels. Kepler's tiles below
/// 128x128 have 4x4 results a thread, later ones 8x8: twice the loads from shared memory for each
/// multiply-add. Source: kernel names and threads of sgemm_sm35_ldg_nn_64x16x64x16x16 and
/// _32x16x64x8x16.
double library_tile_overhead(const GpuSpec& gpu, const GemmParameters& p) {
  return gpu.architecture == Architecture::Kepler ? p.small_thread_tile_overhead : p.tile_overhead;
}

/// Cycles of an SM that a tile waits for addresses at each element of k, on Pascal. Where rows of A
/// (columns of B) run along k, it reads a piece of each, and long rows lie on pages far apart:
///   walks = 160 cycles (80, a guess, where one operand does) * min(1, row_bytes / 120 KB) *
///   miss_share(m * row_bytes, 200 MB)
/// 120 KB: 17 rows to a page of 2 MB. Source: linear layers of data/kernels/gemm.csv.gz with more
/// than 8 tiles an SM (P100 32x128 tiles, P4 128x128 tiles), both GPUs with the same figures; that
/// translation is the cause is a guess (notes/0003). Volta and later, whose L1 is looked up before
/// any translation, lose nothing.
double page_walks(const TileProblem& problem, Architecture architecture) {
  constexpr double kCyclesPerOperand = 80;
  constexpr double kFarApart = 120e3;
  constexpr double kReach = 200e6;
  if (architecture != Architecture::Pascal || problem.row_bytes <= 0) return 0;
  const int operands = (problem.a_by_rows ? 1 : 0) + (problem.b_by_columns ? 1 : 0);
  return operands * kCyclesPerOperand * std::min(1.0, problem.row_bytes / kFarApart) *
         miss_share(problem.m * problem.row_bytes, kReach, 1.0);
}

}  // namespace

double single_step_cycles(Architecture architecture, const CostProfile& profile) {
  return profile.gemm.step_base_cycles +
         profile.gemm.step_latencies * arithmetic_latency(architecture);
}

Seconds block_prologue(double results, double waves, const SustainedGpu& machine,
                       const GpuSpec& gpu, const CostProfile& profile) {
  constexpr double kLargestTile = 128.0 * 128.0;
  const double single = single_step_cycles(gpu.architecture, profile) /
                        single_step_cycles(Architecture::Maxwell, profile);
  return Seconds(profile.convolution.prologue_cycles *
                 std::max(waves * results / kLargestTile, single) / machine.clock.in_si());
}

TileEstimate estimate_tiles(const TileProblem& problem, const SustainedGpu& machine,
                            const GpuSpec& gpu, const CostProfile& profile) {
  const GemmParameters& p = profile.gemm;
  const double sms = machine.sm_count;
  const double sm_rate = machine.arithmetic.in_si() / sms;
  const double best_rate = sm_rate * problem.efficiency;
  const double bandwidth = machine.stream.in_si();
  const bool tensor_core =
      problem.tiles == TileSet::TensorCore || problem.tiles == TileSet::SmallTensorCore;
  const double reference = tensor_core ? 128.0 : problem.tiles == TileSet::Spectra ? 32.0 : 64.0;
  const double overhead = tensor_core                 ? profile.tensor.tile_overhead
                          : problem.by_matrix_library ? library_tile_overhead(gpu, p)
                                                      : profile.convolution.tile_overhead;
  const bool counts_steps = problem.by_matrix_library || tensor_core;
  const double prologue_steps = tensor_core ? profile.tensor.prologue_steps : p.prologue_steps;
  const double q = p.wave_quantization;
  const double step_latency =
      (tensor_core ? profile.tensor.step_cycles : single_step_cycles(gpu.architecture, profile)) /
      machine.clock.in_si();
  // What keeps tensor cores waiting is not held back with them.
  const double cut = tensor_core ? tensor_cut(gpu, GemmFormat::Half) : 1;
  const TensorRates rates{.peak = sm_rate, .whole = sm_rate * cut};
  const double registers = std::max(gpu.registers_per_sm, 1);
  const double base_memory = problem.traffic_bytes / bandwidth;

  TileEstimate best;
  double best_time = 0;
  const auto consider = [&](const Tile& tile, int split) {
    const double tiles =
        problem.batch * std::ceil(problem.m / tile.m) * std::ceil(problem.n / tile.n) * split;
    const double per_sm = tiles / sms;
    const double waves = per_sm <= 1 ? 1.0 : q * std::ceil(per_sm) + (1 - q) * per_sm;
    const double shape =
        1.0 + overhead * std::max(reference / tile.n + reference / tile.m - 1.0, 0.0);
    const double walks = page_walks(problem, gpu.architecture) / machine.clock.in_si();
    const double rate = cut == 1 ? best_rate / shape : rates.at(problem.efficiency / shape);
    const double busy =
        tile.parts * problem.depth_per_step * waves * (2.0 * tile.n * tile.m / rate + walks);
    const double resident =
        std::max(1.0, registers / (kRegistersPerThread * tile.threads * tile.parts));
    const double waiting = step_latency * std::max(per_sm / resident, 1.0);
    const double steps = std::ceil(problem.k / (split * problem.depth_per_step * tile.parts));
    const double step = std::max(busy, waiting);
    const double prologue =
        counts_steps ? prologue_steps * std::max(busy / cut, waiting)
                     : problem.depth_per_step *
                           block_prologue(tile.n * tile.m, waves, machine, gpu, profile).in_s();
    const double compute = steps * step + prologue;
    const double memory = base_memory + 2.0 * (split - 1) * problem.result_bytes / bandwidth;
    const Roofs roofs{Seconds(compute), Seconds(memory), per_sm < 1 || waiting > busy,
                      std::min(per_sm, 1.0)};
    const double time = combine(roofs).in_si();
    if (best.tile_m == 0 || time < best_time) {
      best = {roofs, tile.m, tile.n, split};
      best_time = time;
    }
  };

  for (const Tile& tile : tiles_of(problem.tiles, gpu.architecture)) {
    const double tiles_unsplit =
        problem.batch * std::ceil(problem.m / tile.m) * std::ceil(problem.n / tile.n);
    const bool is_given = problem.blocks_per_sm > 0;
    const double enough = (is_given ? problem.blocks_per_sm : kUsefulBlocks) * sms;
    int last = 1;
    if (!is_given) consider(tile, 1);
    for (const int split : kSplits) {
      // Slices shorter than 64 steps are not offered.
      if (split > problem.most_slices || problem.k < 64.0 * split) break;
      if (is_given ? tiles_unsplit * last >= enough : tiles_unsplit * split > enough) break;
      if (!is_given) consider(tile, split);
      last = split;
    }
    if (is_given) consider(tile, last);
  }
  // Half of a matrix-vector kernel's instructions load: it reaches half of the arithmetic rate at
  // most.
  const double vectors = std::min(problem.m, problem.n);
  const bool by_library = problem.tiles == TileSet::Gemm || problem.tiles == TileSet::CublasLt;
  if (by_library && problem.may_be_vectors && vectors <= kMostVectors) {
    const Roofs roofs{Seconds(4.0 * problem.batch * problem.m * problem.n * problem.k /
                              machine.arithmetic.in_si()),
                      Seconds(base_memory), false};
    if (combine(roofs).in_si() < best_time) best = {roofs, 1, static_cast<int>(vectors), 1};
  }
  return best;
}

}  // namespace tracecast::cost
