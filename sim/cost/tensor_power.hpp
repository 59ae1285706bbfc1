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
  double overlap = 3;    ///< exponent at which memory hides behind the two before
};

/// Power limit of a board under kernels on tensor cores, each by what it does.
class TensorPower {
 public:
  /// Energy of operations of 16 bits times `energy`.
  TensorPower(const GpuSpec& gpu, double energy, const CostProfile& profile);

  /// Greatest share of the clock, at most 1, at which
  ///   bytes pj_per_byte + flops pj_per_flop share^(g-1) <= (limit - active-idle) (1 - base_share)
  ///   time(share) time(share) = fixed + (((arithmetic/share)^3 + (operands/share)^3)^(overlap/3) +
  ///   memory^overlap)^(1/overlap) g = tensor_gemm.clock_exponent pj_per_flop = flop_pj
  ///   energy_step^kind energy_of(kind) (process_nm/7)^node_exponent (clock/1.41 GHz)^(g-1) energy
  /// A kernel that waits for memory, or fills the tensor cores badly, keeps its clock. 1 on a
  /// pinned board. Form: dynamic power goes with clock and voltage squared; fitted to GEMMs,
  /// notes/0002.
  [[nodiscard]] double clock_share(const TensorLoad& load) const;
  /// Mean power of the board over the load at that share. A clock that is set lower than the free
  /// one lowers the base as well; the limit's own clocks were fitted without that.
  [[nodiscard]] Watts power(const TensorLoad& load, double share) const;

 private:
  double active_idle_w_, limit_w_, base_w_, clocked_base_w_, joule_per_flop_, joule_per_byte_,
      voltage_exponent_;
  bool is_pinned_;
};

struct Roofs;

/// What a kernel that is no library's GEMM does while it runs.
struct KernelLoad {
  double flops = 0;       ///< on tensor cores
  double lane_flops = 0;  ///< on CUDA cores, in units of four bytes
  double dram_bytes = 0;
  double passed_bytes = 0;  ///< between L2 and the SMs
  Seconds working{};        ///< of SMs with a block: issue, lanes, tensor cores
  Seconds at_peak{};        ///< of it, what tensor cores would take at their peak
  Seconds duration{};
  double sm_share = 1;  ///< that has a block, averaged over the duration
  double throttle = 1;  ///< share of the clock
};

/// Power of a board while it runs such a kernel, from Ampere on. At the clock that it has,
///   waiting  = waiting_power(),   full = active-idle + base_share (limit - active-idle), as GEMMs
///   have it (TensorPower) voltage  = (clock / free clock)^(g-1),   busy = busy_cycle_pj SMs clock
///   power    = waiting + sm_share voltage clock/free (full - waiting) + (hbm_pj_per_byte
///   dram_bytes
///              + voltage (pass_pj_per_byte passed_bytes + pj_per_flop flops + busy (working -
///              at_peak) + flop_pj node lane_flops)) / duration
/// where tensor cores take instructions of warps; from wgmma on busy cycles hold the operations of
/// lanes,
///   node = (process_nm / 16)^power.node_exponent,
/// and at most the limit. Figures from readings of one B200: pass_pj_per_byte from kernels that
/// stream, busy_cycle_pj from attention, which stands for all kernels whose SMs work below the peak
/// of their tensor cores; sim/step/notes/0001.
class KernelPower {
 public:
  /// Energy of operations of 16 bits on tensor cores times `energy`.
  KernelPower(const GpuSpec& gpu, double energy, const CostProfile& profile);
  [[nodiscard]] Watts of(const KernelLoad& load) const;
  /// Of a GEMM in the middle of a long run that draws `alone` in a table's few repetitions, whose
  /// operands hardly change: its bytes take gemm_pass_of of what they take in other kernels.
  [[nodiscard]] Watts in_long_run(Watts alone, double bytes, Seconds duration,
                                  double throttle) const;
  /// Greatest share of the clock, at most 1, at which a kernel on CUDA cores asks for no more than
  /// the limit: its compute roof takes longer in proportion, its memory roof and `fill` do not. At
  /// least power.min_clock, 1 on a pinned board. `load` says what moves; its times are not read.
  [[nodiscard]] double clock_share(KernelLoad load, const Roofs& roofs, Seconds fill) const;

 private:
  /// Without the limit, W.
  [[nodiscard]] double asked(const KernelLoad& load) const;

  double waiting_w_, full_w_, limit_w_, clock_share_, joule_per_byte_, joule_per_passed_,
      joule_per_gemm_byte_, joule_per_flop_, joule_per_lane_flop_, busy_w_, voltage_exponent_,
      least_share_;
  bool is_pinned_;
};

/// What is reported over what a board draws that waits, at most what its limit leaves.
[[nodiscard]] inline Watts reported_over(Watts reported, Watts waiting, Watts limit) {
  return max(Watts(), min(reported, limit) - waiting);
}

/// Time of a load at a share of the clock.
[[nodiscard]] Seconds duration_at(const TensorLoad& load, double share);

/// Energy of an operation over that of one in 16 bits, for kernels that are no GEMMs: with the
/// width of the operands, as the peaks do (TF32: 2).
[[nodiscard]] double energy_by_width(const GpuSpec& gpu, Precision precision);

/// Energy of a byte that a board's GDDR moves, or could move, over that of GDDR6 and older.
[[nodiscard]] double gddr_energy(const GpuSpec& gpu, const CostProfile& profile);

/// Energy of a byte from DRAM under kernels on tensor cores.
[[nodiscard]] double joule_per_byte(const GpuSpec& gpu, const CostProfile& profile);

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
