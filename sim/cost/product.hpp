#pragma once
#include <cstdint>
#include <limits>
#include <optional>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/roofs.hpp"

namespace tracecast::cost {

/// Bytes that pass through L2 between two uses of the same data; infinite: it comes from memory. In a network operands are
/// charged from memory; benchmarks that repeat one product find theirs in L2.
struct OperandReuse {
  double activations = std::numeric_limits<double>::infinity();
  double weights = std::numeric_limits<double>::infinity();
  double results = std::numeric_limits<double>::infinity();
};

/// out[b, m, n] = activations[b, m, k] weights[b, k, n] on tensor cores.
struct TensorProduct {
  double batch = 1, m = 1, n = 1, k = 1;
  ProductFormat format = ProductFormat::Half;
  /// Whose kernels, and with what before them; nothing: the vendor's library, operands already in the format.
  std::optional<ProductEngine> engine;
  OperandReuse reuse;
};

/// What a product takes, and how.
struct ProductEstimate {
  Seconds
      duration{};  ///< first block start to last block end, the engine's call before it included
  Roofs roofs;     ///< compute at the clock that the limit leaves; memory
  double throttle = 1;  ///< share of the clock that the power limit leaves while it runs
  Watts power{};        ///< mean of the board
  int tile_m = 0, tile_n = 0, split_k = 1;
};

/// One board's rates for products of one format, worked out once for thousands of prices.
class ProductMachine {
 public:
  /// Rates at the clock the board is set to, else its free clock; a format without a peak on this GPU runs at that of 16 bits.
  ProductMachine(const GpuSpec& gpu, ProductFormat format, const CostProfile& profile);

  /// Time of the best tile and number of slices. With `rate` = peak * efficiency of one SM, `stream` what one block draws:
  ///   blocks = batch ceil(m/tm) ceil(n/tn) slices,   waves = blocks <= SMs ? 1 : q ceil(blocks/SMs) + (1-q) blocks/SMs
  ///   depth  = 16 ceil(k / slices / 16)
  ///   mma    = waves 2 tm tn (depth + block_depth) / (rate r/(r + operand_edge)),   r = 2 tm tn / (tm + tn)
  ///   load   = waves (tm a + tn b) depth / stream                    (a, b: bytes of a value of either operand)
  ///   dram   = sum of operands and results, each by its share that misses L2, / bandwidth
  ///   time   = start 2 GHz/clock + waves block_cycles/clock + split + (mma^3 + load^3 + dram^3)^(1/3)
  ///   split  = split_us + 8 m n slices / (split_bytes_per_clock SMs clock)           (slices > 1)
  /// A small grid streams weights no faster than its blocks draw them, which is what products of few rows are made of.
  /// Then the power limit, by what this kernel does: the greatest share of the clock, at most 1, at which
  ///   bytes pj_per_byte + flops pj_per_flop share^(g-1) <= (limit - awake) (1 - base_share) time(share),   g = clock_exponent,
  /// where mma and load take 1/share as long.
  ///   pj_per_flop = flop_pj energy_step^kind (process_nm/7)^node_exponent (clock/1.41 GHz)^(g-1) * the format's
  /// What an engine does before: call_us * call_of the generation + traffic * bytes of reading 16-bit activations and writing narrow ones / bandwidth.
  /// Where n or k is no multiple of 8, rate, stream and bandwidth are `unaligned` of that.
  /// Tiles by instruction generation, as the vendor's libraries have them; product.cpp. Inference engines' own kernels do
  /// not slice k. Leaves out: clusters, order of tiles, shared memory that limits stages.
  /// Source: tiles, waves and split-k as NVIDIA, Matrix Multiplication Background, tells them; the rest from tables, notes/0011.
  [[nodiscard]] ProductEstimate estimate(const TensorProduct& product) const;

 private:
  struct Grid;
  [[nodiscard]] double call_seconds(const TensorProduct& product) const;

  const ProductParameters* p_;
  MmaKind kind_;
  ProductFormat format_;
  double sms_, clock_, peak_, sm_rate_, stream_, bandwidth_, l2_, start_, block_, depth_;
  double awake_, limit_, joule_per_flop_, joule_per_byte_, base_w_;
  double a_bytes_, b_bytes_;
  bool is_pinned_;
};

/// What kernels on tensor cores that choose their own clock need to know of a board.
struct TensorBoard {
  TensorBoard(const GpuSpec& gpu, const CostProfile& profile);
  MmaKind kind;
  double sms, clock;  ///< Hz, before the power limit
  double shared_kib;  ///< of an SM
  double bandwidth;   ///< bytes/s in the board's ECC state, before what is achieved of it
  double l2;          ///< bytes that hold distinct data
  double left_w;      ///< between awake, what is drawn whatever runs, and the limit
  bool is_pinned;     ///< the clock does not give way
  /// FLOP/s at `clock`; joules per FLOP at it.
  [[nodiscard]] double peak(ProductFormat format) const;
  [[nodiscard]] double joule_per_flop(ProductFormat format) const;
  /// (1 + (joules / left_w / seconds)^4)^(1/4/clock_exponent): how much longer arithmetic takes that would draw more than the limit leaves.
  [[nodiscard]] double slowdown(double joules, double seconds) const;

 private:
  const GpuSpec* gpu_;
  const CostProfile* profile_;
};

/// Share of the clock that the board's limit leaves to tensor cores that never wait, in `precision`: what other kernels than
/// products run at (sustained_clock.hpp).
[[nodiscard]] double tensor_throttle(const GpuSpec& gpu, Precision precision,
                                     const CostProfile& profile);

/// Share of the peak of 16-bit products that large tiles sustain at an unlimited clock, at most 1.
[[nodiscard]] double product_efficiency(const GpuSpec& gpu, const CostProfile& profile);

}  // namespace tracecast::cost
