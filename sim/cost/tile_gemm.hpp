#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {

/// Which tiles the library offers for a problem.
enum class TileSet {
  Gemm,               ///< everything cuBLAS has; the fastest is taken
  Batched,            ///< the family's one tile for batched GEMMs
  CublasLt,           ///< what it picks before Volta
  Convolution,        ///< 128 pixels by 128, 64 or 32 channels, however small the grid
  EngineConvolution,  ///< the same, and blocks whose warps divide k among them where a tile is
                      ///< narrow
  Spectra,            ///< of complex numbers
  TensorCore,
  SmallTensorCore,  ///< the same and some of 32 rows or columns: cuDNN's since version 8
};
/// The most slices of k that a matrix library takes.
inline constexpr int kMostSlices = 64;
/// The same for gradients of weights, whose inner dimension is all pixels of the batch. Source:
/// image filters in data/kernels/conv.csv.gz, whose few tiles fill a V100.
inline constexpr int kMostPixelSlices = 256;

/// A GEMM C[b, m, n] = A[b, m, k] B[b, k, n] as a tile kernel sees it. Convolutions become one of
/// these.
struct TileProblem {
  double batch = 1, m = 1, n = 1, k = 1;
  double efficiency = 1;      ///< of the inner loop on the best tile, of the sustained rate
  double traffic_bytes = 0;   ///< compulsory DRAM traffic
  double result_bytes = 0;    ///< of C once; split-K writes and reads it more often
  double depth_per_step = 1;  ///< see depth_per_step()
  int most_slices = 1;        ///< of k, computed by blocks of their own and added up (split-K)
  /// 0: as many slices as are fastest; else as many as give each SM this many blocks.
  double blocks_per_sm = 0;
  TileSet tiles = TileSet::Gemm;
  /// Operands whose neighbours along k stand side by side in memory (rows of A, columns of B),
  /// `row_bytes` from one row to the next: where these are far apart, Pascal waits for addresses.
  bool a_by_rows = false, b_by_columns = false;
  double row_bytes = 0;
  bool may_be_vectors = true;      ///< few rows or columns run as a matrix-vector kernel
  bool by_matrix_library = false;  ///< overhead and prologue of gemm.*, else of convolution.*
};
/// The tile the model took, and its roofs.
struct TileEstimate {
  Roofs roofs;
  int tile_m = 0, tile_n = 0, split_k = 1;
};

/// Elements of the inner dimension that a step multiplies: dp4a takes 4 at a time; 8-bit
/// tensor-core instructions go twice as deep as 16-bit ones (m16n8k32 and m16n8k16; PTX ISA, mma),
/// whose step the tensor-core latency was fitted to. Else 1.
[[nodiscard]] inline double depth_per_step(const Kernel& kernel) {
  const bool eight_bit = element_size(kernel.math) == Bytes(1);
  if (kernel.unit == MathUnit::TensorCore) return eight_bit ? 2 : 1;
  return eight_bit ? 4 : 1;
}

/// Cycles per step of k of a block alone on its SM: nothing hides its loads.
///   step_base_cycles + step_latencies * latency of the generation
[[nodiscard]] double single_step_cycles(Architecture architecture, const CostProfile& profile);

/// What starting and ending `waves` blocks of `results` outputs, one after the other, takes in a
/// convolution: addresses, first loads and stores, cycles that do not go with the lanes.
///   prologue_cycles / clock * max(waves * results / 128^2, single_step_cycles / those of Maxwell)
/// Small blocks share an SM; a single one waits as long as a large one, for its generation's
/// latencies. Source: data/kernels/conv.csv.gz and conv_cudnn_algos.csv.gz, implicit GEMMs of 16
/// channels and less against those of 64 and more: counted in steps of the inner loop, which takes
/// an SM of 64 lanes twice the cycles of one of 128, V100, T4 and A100 came out 27 to 35 % slower,
/// M60, P4 and TITAN Xp at most 10 (notes/0003).
[[nodiscard]] Seconds block_prologue(double results, double waves, const SustainedGpu& machine,
                                     const GpuSpec& gpu, const CostProfile& profile);

/// Time of the best tile of the library's set (m and n padded to whole tiles):
///   tiles = batch * ceil(m/ty) * ceil(n/tx) * split
///   waves = tiles <= SMs ? 1 : q * ceil(tiles/SMs) + (1 - q) * tiles/SMs        (q:
///   wave_quantization) ks counts steps of `depth` = depth_per_step elements: ks = ceil(k / (split
///   * depth)) busy  = depth waves (2 tx ty (1 + overhead * max(64/tx + 64/ty - 1, 0)) /
///   (arithmetic/SMs * efficiency) + walks / clock)
///           (overhead of Kepler's library: gemm.small_thread_tile_overhead; walks: what long rows
///           cost Pascal, notes/0003)
/// Blocks whose warps divide k in `parts` take as many steps at once: ks / parts steps of parts
/// busy.
///   wait  = (step_base_cycles + step_latencies * latency of the generation) / clock *
///   max(tiles/SMs / resident, 1),  resident = registers / (128 threads) compute = ks * max(busy,
///   wait) + prologue prologue = prologue_steps * max(busy, wait)   (matrix library, tensor cores:
///   each its own)
///            = depth * block_prologue()           (convolutions on lanes)
///   memory  = (traffic + 2 (split - 1) result) / (bandwidth * memory efficiency)
/// `wait` is what decides small grids: a block alone on its SM takes 150 to 250 cycles per step of
/// the inner dimension whatever its tile, since nothing hides its loads. Tensor-core tiles: 128 in
/// place of 64 and their own latency. Spectra: 32 in place of 64, since an element of two numbers
/// is loaded for four multiply-adds. With min(m, n) <= 8 a matrix-vector kernel is offered too:
/// compute = 4 m n k / arithmetic, memory = traffic / bandwidth. Source: COST_MODEL.md 2.1, reduced
/// to the terms that its ablation (2.5) could tell from nothing, plus waves and `wait`; the latter
/// from single-wave convolutions, see notes/0003.
[[nodiscard]] TileEstimate estimate_tiles(const TileProblem& problem, const SustainedGpu& machine,
                                          const GpuSpec& gpu, const CostProfile& profile);

}  // namespace tracecast::cost
