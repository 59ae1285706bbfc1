#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/tensor_power.hpp"

namespace tracecast::cost {

/// Bytes that pass through L2 between two uses of the same data; infinite: it comes from memory. In
/// a network operands are charged from memory; benchmarks that repeat one GEMM find theirs in L2.
struct OperandReuse {
  double activations = std::numeric_limits<double>::infinity();
  double weights = std::numeric_limits<double>::infinity();
  double results = std::numeric_limits<double>::infinity();
  /// Of 16-bit activations that an engine quantises; 0: the kernel before wrote them, and the
  /// weights pass between.
  double inputs = 0;
};

/// out[b, m, n] = activations[b, m, k] weights[b, k, n] on tensor cores.
struct TensorGemm {
  double batch = 1, m = 1, n = 1, k = 1;
  GemmFormat format = GemmFormat::Half;
  /// Whose kernels, and with what before them; nothing: the vendor's library, operands already in
  /// the format.
  std::optional<GemmEngine> engine;
  OperandReuse reuse;
  /// Bytes at whose multiples all rows of operands and results begin: 16, 8, 4, 2 or 1.
  double alignment = 16;
  double value_of_result = 0;  ///< bytes; 0: result_bytes() of the format
  double addend = 0;           ///< bytes that the epilogue adds to the results
  /// Bytes of the image whose im2col matrix the activations are, so that memory holds each value
  /// once; 0: a matrix.
  double image = 0;
  /// Values of k whose time a block needs to fill its pipeline; 0: block_depth, fitted to GEMMs.
  double fill = 0;
  /// The vendor's library has no kernels of 16 bits yet that stay on their SMs, nor tiles of 192;
  /// other formats: no row tells.
  bool by_early_library = false;
  /// Scales of the weights come as fp32 in 128x128 and are laid out for tensor memory in every
  /// call, not once beforehand.
  bool packs_scales = false;
  /// The engine did not time its kernels beforehand: its default tile, where it has one; without an
  /// engine a kernel of one tile, no slices.
  bool is_untuned = false;
  /// Activations come in the engine's format: nothing runs before the GEMM.
  bool is_quantised = false;
};

/// Largest of 16, 8, 4, 2, 1 that divides a row of `values` of `bytes` each; half bytes count as
/// whole ones.
[[nodiscard]] double row_alignment(double values, double bytes);

/// Bytes of a result value: 4 where operands are read as 32 bits wide, else 2.
[[nodiscard]] double result_bytes(GemmFormat format);
/// Where the GEMM's rows begin: activations lie as [m, k], or [k, m] where transposed, weights as
/// [k, n], or [n, k] where transposed, results of `result` bytes as [m, n].
[[nodiscard]] double gemm_alignment(const TensorGemm& gemm, bool transpose_a, bool transpose_b,
                                    double result);

/// Tokens by features that one block computes.
struct GemmTile {
  int m = 0, n = 0;
  /// Blocks of a cluster, along tokens and features: a grid has whole clusters.
  int cluster_m = 1, cluster_n = 1;
  /// Blocks that draw the tile's tokens, or features, together: 2 where one instruction lies over
  /// two SMs.
  int share_m = 1, share_n = 1;
};

/// Tiles of kernels that an inference engine compiled itself: one where its sources name the tile
/// for so many tokens and features, several where it times what it has; none where it calls the
/// vendor's library or the fastest of all is as good a guess. `compute_capability` as GpuSpec has
/// it (89: 8.9).
[[nodiscard]] std::span<const GemmTile> engine_tiles(const TensorGemm& gemm, MmaKind kind,
                                                     int compute_capability);

/// Whether vLLM on data-centre Blackwell takes it for a GEMM with one scale of a tensor, which goes
/// to another library. Source: vLLM, quantization/utils/w8a8_utils.py, dispatch by the number of
/// scales.
[[nodiscard]] bool is_single_token(const TensorGemm& gemm, MmaKind kind, int compute_capability);

/// Whether its kernels hold an SM by one block, whose end nothing hides: CUTLASS 2's of vLLM, five
/// stages of 16 KiB and more in flight.
[[nodiscard]] bool holds_sm_alone(const TensorGemm& gemm, int compute_capability);

/// What a GEMM takes, and how.
struct GemmEstimate {
  Seconds
      duration{};  ///< first block start to last block end, the engine's call before it included
  Roofs roofs;     ///< compute at the clock that the limit leaves; memory
  double throttle = 1;  ///< share of the clock that the power limit leaves while it runs
  Watts power{};        ///< mean of the board
  int tile_m = 0, tile_n = 0, split_k = 1;
};

/// One board's rates for GEMMs of one format, worked out once for thousands of prices.
class TensorGemmMachine {
 public:
  /// Rates at the clock the board is set to, else its free clock; a format without a peak on this
  /// GPU runs at that of 16 bits. Energy per operation times `energy`.
  TensorGemmMachine(const GpuSpec& gpu, GemmFormat format, const CostProfile& profile,
                    double energy = 1);

  /// Time of the best tile and number of slices. With `peak` of one SM, `whole` the same of silicon
  /// of which nothing is cut (tensor_cut), `share` what kernels reach of it, `stream` what one
  /// block draws:
  ///   blocks = batch ceil(m/tm) ceil(n/tn) slices, in whole clusters,   waves = blocks <= SMs ? 1
  ///   : q ceil(blocks/SMs) + (1-q) blocks/SMs q      = wave_quantization, blocks of a warp-level
  ///   kernel share an SM; from wgmma on resident_quantization, since kernels stay on
  ///            their SMs and take tile after tile, of the size that wastes least; 1 where an
  ///            engine has one size; in libraries before those (16 bits alone), which lack tiles of
  ///            192 too and run at early_rate, early_stream, 1 / max(1, started waves - 1)
  ///            (notes/0005)
  ///   depth  = step ceil(k / slices / step)      (step: 32 bytes of k, as one instruction takes;
  ///   block_depth is in values of 16 bits) mma    = waves 2 max(tm, least) tn (depth (1/peak -
  ///   1/whole) + (depth + block_depth) (1 + operand_edge/r) / (share whole)),   r = 2 tm tn / (tm
  ///   + tn),
  ///            least tokens 32 of wgmma, 64 of tcgen05, whose rows pass through shared memory
  ///   load   = waves (tm a / share_m + tn b / share_n) depth / stream  (a, b: bytes of a value of
  ///   either operand)
  ///            engines' own kernels: with waves stages step_cycles/clock, stages = ceil(depth a /
  ///            128), in cube root sum mma and load of tiles that an engine's TMA kernels fill on
  ///            Hopper: times 1 + tile padding void, the share of computed tokens past the last
  ///            one; of the last cluster alone where the grid's order leaves an SM at the same
  ///            tokens from tile to tile
  ///   dram   = (sum of operands and results, each by its share that misses L2, + again) /
  ///   bandwidth again  = rasterized (across / width - 1) by what of `rasterized + other width /
  ///   across` misses L2: the operand along whose tiles a grid goes, the shorter
  ///            side or, by CUTLASS 2 of some engines, tokens; width = max(SMs / along, cluster,
  ///            band_tiles of kernels whose grids have bands) (notes/0005)
  ///   time   = start 2 GHz/clock + waves block_cycles/clock + single + split + ((mma^3 +
  ///   load^3)^(o/3) + dram^o)^(1/o)
  ///            o: 3 of the vendor's kernels, engine.overlap of engines' own, whose blocks wait for
  ///            the start of every tile's data
  ///   split  = split_us + 8 m n slices / (split_bytes_per_clock SMs clock)           (slices > 1),
  ///   or
  ///            (slices - 1) serial_slice_us 2 GHz/clock of weight-only kernels, whose slices add
  ///            to the results in turn
  ///   single   = single_block_cycles blocks / SMs / clock of kernels that hold an SM by one block
  ///   (engine_tiles.cpp), times single_block_spill beyond
  ///            128x128 results; by blocks, since all SMs together wait for it: few blocks take
  ///            less
  /// A small grid streams weights no faster than its blocks draw them, which is what GEMMs of few
  /// rows are made of. Then the clock that the power limit leaves to this kernel: TensorPower. What
  /// an engine does before: call_us * call_of the generation, and of the engine's on it + traffic *
  /// (bytes of reading 16-bit activations and writing narrow ones that miss L2 / bandwidth + those
  /// that do not, at pass_cycles_per_kib of an SM) in cube root sum with m k value_cycles / (1024 2
  /// GHz SMs threads of one / 2048), + m row_cycles / (2 GHz SMs threads of one / 2048): a block
  /// quantises a row, few values do not shorten it, and it waits for times, not for cycles; +
  /// packed_scales_us + packed_scales_us_per_million n ceil(k / 128) / 10^6 where it packs_scales.
  /// Blocks of TensorRT-LLM on data-centre Blackwell: + uneven_tokens_us +
  /// uneven_tokens_us_per_million m ceil(k / 128) / 10^6 where m is no multiple of four; vLLM's fp8
  /// of one token there: + single_token_us. TensorRT-LLM's pass with static scales takes
  /// scalar_round_us at least for every 262,144 values. Nothing of it where activations are
  /// quantised already. The GEMM finds what was written just before in L2, as far as it stays. Rows
  /// that do not begin at multiples of 16 bytes: bulk and 16-byte copies need those (CUDA
  /// Programming Guide, "Asynchronous data copies"), so the library falls back to kernels of
  /// warp-level instructions, whose peak is warp_share^(generations since) of the chip's; below 4
  /// bytes to those that stage operands in registers. Rate, stream and bandwidth are `unaligned` of
  /// theirs, there `unaligned_staged`; rows of results that are aligned are written at the whole
  /// bandwidth. One value of k is no row: cuBLAS has a kernel for it (gemmk1). Tiles by instruction
  /// generation, as the vendor's libraries have them; GEMM.cpp. Inference engines' own kernels do
  /// not slice k, and have tiles of their own: engine_tiles.cpp. Leaves out: clusters, order of
  /// tiles, shared memory that limits stages. Source: tiles, waves and split-k as NVIDIA, Matrix
  /// Multiplication Background, tells them; the rest from tables, notes/0005.
  [[nodiscard]] GemmEstimate estimate(const TensorGemm& gemm) const;

 private:
  struct Grid;
  /// Rates of the kernels of one instruction generation.
  struct Kernels {
    MmaKind kind = MmaKind::Warp;
    double peak = 0;   ///< of the tensor cores
    double whole = 0;  ///< the same where nothing is cut (tensor_cut)
    double share = 0;  ///< of `whole` that kernels reach
    double stream = 0, start = 0, depth = 0;
  };
  [[nodiscard]] double call_seconds(const TensorGemm& gemm) const;
  /// Of rows that are aligned so, and what unaligned rows leave of them.
  [[nodiscard]] std::pair<const Kernels&, double> kernels_for(double alignment) const;

  const TensorGemmParameters* p_;
  MmaKind kind_;  ///< of the chip
  GemmFormat format_;
  int capability_;
  bool has_halves_ = false;  ///< of L2
  TensorPower power_;
  std::array<Kernels, kMmaKindCount> kernels_;  ///< of its own generation and those before
  double sms_, resident_, clock_, peak_, bandwidth_, l2_, block_, stage_, step_;
  double a_bytes_, b_bytes_, c_bytes_;
};

/// Share of the peak of 16-bit GEMMs that large tiles sustain at an unlimited clock, at most 1.
[[nodiscard]] double gemm_efficiency(const GpuSpec& gpu, const CostProfile& profile);

}  // namespace tracecast::cost
