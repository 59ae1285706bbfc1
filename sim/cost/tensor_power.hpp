#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast::cost {

/// What tensor cores of one board do at full clock while one kernel runs, and for how long.
struct TensorLoad {
  double flops = 0;
  double dram_bytes = 0;
  Seconds fixed{};       ///< keeps its time whatever the clock: start and end
  Seconds arithmetic{};  ///< at full clock
  Seconds operands{};    ///< loads from L2 and shared memory, at full clock
  Seconds memory{};      ///< keeps its time
};

/// Power limit of a board under kernels on tensor cores, each by what it does.
class TensorPower {
 public:
  /// Energy of operations of 16 bits times `energy`.
  TensorPower(const GpuSpec& gpu, double energy, const CostProfile& profile);

  /// Greatest share of the clock, at most 1, at which
  ///   bytes pj_per_byte + flops pj_per_flop share^(g-1) <= (limit - awake) (1 - base_share) time(share)
  ///   time(share) = fixed + ((arithmetic/share)^3 + (operands/share)^3 + memory^3)^(1/3),   g = product.clock_exponent
  ///   pj_per_flop = flop_pj energy_step^kind energy_of(kind) (process_nm/7)^node_exponent (clock/1.41 GHz)^(g-1) energy
  /// A kernel that waits for memory, or fills the tensor cores badly, keeps its clock. 1 on a pinned board.
  /// Form: dynamic power goes with clock and voltage squared; fitted to products, notes/0011.
  [[nodiscard]] double clock_share(const TensorLoad& load) const;
  /// Mean power of the board over the load at that share.
  [[nodiscard]] Watts power(const TensorLoad& load, double share) const;

 private:
  double awake_w_, limit_w_, base_w_, joule_per_flop_, joule_per_byte_, voltage_exponent_;
  bool is_pinned_;
};

/// Time of a load at a share of the clock.
[[nodiscard]] Seconds duration_at(const TensorLoad& load, double share);

/// Energy of an operation over that of one in 16 bits, for kernels that are no products: with the width of the operands, as
/// the peaks do (TF32: 2).
[[nodiscard]] double energy_by_width(const GpuSpec& gpu, Precision precision);

/// Clock at which the board starts: the one it is set to, else its free clock.
[[nodiscard]] Hertz starting_clock(const GpuSpec& gpu, const CostProfile& profile);

/// See pinned_at(), sustained_clock.hpp.
[[nodiscard]] inline bool is_pinned(const GpuSpec& gpu) {
  return gpu.base_clock >= gpu.boost_clock;
}

/// Memory that is driven over a board's traces, not over an interposer.
[[nodiscard]] inline bool has_gddr(const GpuSpec& gpu) {
  return gpu.memory_type < MemoryType::Hbm2 || gpu.memory_type == MemoryType::Gddr7;
}

}  // namespace tracecast::cost
