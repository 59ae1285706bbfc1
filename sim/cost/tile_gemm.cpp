#include "sim/cost/tile_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/cost/issue.hpp"

namespace tracecast::cost {
namespace {

/// Registers of one thread in a tile kernel: 128 keep 64 accumulators and the operands of a 128x128 tile.
/// Source: occupancy of recorded sgemm launches (512 threads per SM of 64 Ki registers).
constexpr double kRegistersPerThread = 128;

struct Tile {
  int n, m, threads;
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
// Tiles of cuBLAS's and cuDNN's tensor-core kernels (h884, s1688, s16816 and later kernel names).
constexpr std::array<Tile, 5> kTensorTiles = {
    {{256, 128, 256}, {128, 256, 256}, {128, 128, 256}, {64, 128, 128}, {64, 64, 128}}};
constexpr std::array<int, 9> kSplits = {2, 3, 4, 8, 16, 32, 64, 128, 256};

// Tiles of cuDNN's convolution kernels (maxwell_scudnn_128x..., volta_scudnn_128x...).
constexpr std::array<Tile, 3> kConvolutionTiles = {
    {{128, 128, 256}, {64, 128, 128}, {32, 128, 64}}};

// Tiles of cuDNN's products of spectra (maxwell_gcgemm_64x64, volta_gcgemm_64x32 and so on).
constexpr std::array<Tile, 3> kSpectraTiles = {{{64, 64, 256}, {64, 32, 128}, {32, 32, 64}}};

/// Rows (or columns) up to which the library takes a matrix-vector kernel instead of tiles: it reads the large operand
/// once for all of them. Source: data/kernels_tf dense rows; on K40 and K80 the bandwidth of the weights is flat (155 to
/// 160 GB/s) up to batch 8 and drops to a third at 9; other generations drop less, at 5.
constexpr double kMostVectors = 8;

std::span<const Tile> tiles_of(TileSet set, Architecture architecture) {
  switch (set) {
    case TileSet::Convolution:
      return kConvolutionTiles;
    case TileSet::Spectra:
      return kSpectraTiles;
    case TileSet::TensorCore:
      return kTensorTiles;
    case TileSet::Batched:
      // The one tile cuBLAS takes in a family (more than 99 % of recorded launches); others search.
      if (architecture == Architecture::Pascal) return std::span(kCudaCoreTiles).subspan(1, 1);
      if (architecture == Architecture::Ampere || architecture == Architecture::Ada) {
        return std::span(kCudaCoreTiles).first(1);
      }
      return kCudaCoreTiles;
    case TileSet::Gemm:
      break;
  }
  return kCudaCoreTiles;
}

/// What operands cost beside the multiply-adds in a matrix library's kernels. Kepler's tiles below 128x128 have 4x4 results a
/// thread, later ones 8x8: twice the loads from shared memory for each multiply-add. Source: kernel names and threads of
/// sgemm_sm35_ldg_nn_64x16x64x16x16 and _32x16x64x8x16.
double library_tile_overhead(const GpuSpec& gpu, const GemmParameters& p) {
  return gpu.architecture == Architecture::Kepler ? p.small_thread_tile_overhead : p.tile_overhead;
}

}  // namespace

TileEstimate estimate_tiles(const TileProblem& problem, const SustainedGpu& machine,
                            const GpuSpec& gpu, const CostProfile& profile) {
  const GemmParameters& p = profile.gemm;
  const double sms = machine.sm_count;
  const double sm_rate = machine.arithmetic.in_si() / sms * problem.efficiency;
  const double bandwidth = machine.stream.in_si();
  const bool tensor_core = problem.tiles == TileSet::TensorCore;
  const double reference = tensor_core ? 128.0 : problem.tiles == TileSet::Spectra ? 32.0 : 64.0;
  const double overhead = tensor_core                 ? profile.tensor.tile_overhead
                          : problem.by_matrix_library ? library_tile_overhead(gpu, p)
                                                      : profile.convolution.tile_overhead;
  const double prologue = problem.by_matrix_library && !tensor_core
                              ? p.prologue_steps
                              : profile.convolution.prologue_steps;
  const double q = p.wave_quantization;
  const double step_latency =
      (tensor_core ? profile.tensor.step_cycles
                   : p.step_base_cycles + p.step_latencies * arithmetic_latency(gpu.architecture)) /
      machine.clock.in_si();
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
    const double busy = 2.0 * tile.n * tile.m * problem.depth_per_step * shape * waves / sm_rate;
    const double resident = std::max(1.0, registers / (kRegistersPerThread * tile.threads));
    const double waiting = step_latency * std::max(per_sm / resident, 1.0);
    const double steps = std::ceil(problem.k / (split * problem.depth_per_step)) + prologue;
    const double compute = steps * std::max(busy, waiting);
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
    consider(tile, 1);
    const double tiles_unsplit =
        problem.batch * std::ceil(problem.m / tile.m) * std::ceil(problem.n / tile.n);
    for (const int split : kSplits) {
      // More than four blocks per SM gain nothing, and slices shorter than 64 steps are not offered.
      if (split > problem.most_slices || problem.k < 64.0 * split ||
          tiles_unsplit * split > 4 * sms) {
        break;
      }
      consider(tile, split);
    }
  }
  // Half of a matrix-vector kernel's instructions load: it reaches half of the arithmetic rate at most.
  const double vectors = std::min(problem.m, problem.n);
  if (problem.tiles == TileSet::Gemm && problem.may_be_vectors && vectors <= kMostVectors) {
    const Roofs roofs{Seconds(4.0 * problem.batch * problem.m * problem.n * problem.k /
                              machine.arithmetic.in_si()),
                      Seconds(base_memory), false};
    if (combine(roofs).in_si() < best_time) best = {roofs, 1, static_cast<int>(vectors), 1};
  }
  return best;
}

}  // namespace tracecast::cost
