#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/tensor_gemm.hpp"
#include "sim/cost/tensor_power.hpp"

namespace tracecast::cost {

/// A GPU as kernels find it in the middle of a training run: rates at the clock that the power
/// limit leaves.
struct SustainedGpu {
  int sm_count = 1;
  double throttle = 1;  ///< share of the clock that the power limit leaves to CUDA cores, in (0, 1]
  double clock_share = 1;       ///< sustained / boost clock
  Hertz clock{};                ///< SM clock
  FlopsPerSecond arithmetic{};  ///< of the asked precision and unit, all SMs
  Hertz free_clock{};           ///< SM clock of kernels that leave power to spare
  BytesPerSecond stream{};      ///< what DRAM gives to long runs of reads and writes
  BytesPerSecond l2{};          ///< what the SMs together can draw from L2
  double l2_bytes = 0;          ///< that one SM's data can fill
  std::optional<TensorPower>
      tensor_power;  ///< on tensor cores, which the limit slows by what a kernel does
  std::optional<KernelPower> kernel_power;  ///< from Ampere on; slows kernels on CUDA cores
};

/// Share of the theoretical bandwidth, in the board's ECC state, that kernels draw which only
/// stream: one figure for memory controllers since Volta, one for those before. Source of the
/// split: NVIDIA, Tesla V100 Architecture, WP-08608-001, "HBM2 Memory Architecture": a new
/// controller delivers 1.5 times P100's bandwidth, 1.23 in theory.
[[nodiscard]] double dram_efficiency(const GpuSpec& gpu, const CostProfile& profile);

/// The clock that the board's driver starts from. Boards of compute capability 3.5 (K40) stay at
/// their application clock unless the user raises it; autoboost is the default from 3.7 (K80) on.
/// Source: NVIDIA, "Increase Performance with GPU Boost and K80 Autoboost", developer blog, 2014.
[[nodiscard]] Hertz default_clock(const GpuSpec& gpu);

/// The clock that a board runs at while power is to spare: the default clock, times consumer_boost
/// on boards that offer no ECC, which run above their rated boost while power and temperature allow
/// (not when pinned: base = boost).
[[nodiscard]] Hertz free_clock(const GpuSpec& gpu, const CostProfile& profile);

/// Power of a board on which a program holds a context and no kernel runs.
///   active-idle = idle + gddr_active_idle_pj_per_byte * gddr_energy * pin rate   (GDDR; its clock
///   sleeps on an idle board)
///   active-idle = idle                                       (HBM keeps its clock)
[[nodiscard]] Watts active_idle_power(const GpuSpec& gpu, const CostProfile& profile);

/// What such a board draws as its sensor shows it, which clocks do not follow: they were fitted to
/// active_idle_power().
///   waiting = active-idle + hbm_active_idle_pj_per_byte * pin rate, with HBM from wgmma on, else
///   active-idle
/// Why: the least of 27,000 readings of a B200 is 242 W, those of an H200 that copies from its host
/// 128 W, above 140 and 76 W of idle boards (sim/step/notes/0001).
[[nodiscard]] Watts waiting_power(const GpuSpec& gpu, const CostProfile& profile);

/// Sustained rates of arithmetic in (precision, unit) under the board's power limit.
///   start  = set_clock of the spec where it is set, else the free clock
///   power  = (tdp - active_idle_power) [W] / peak at start [TFLOP/s] / (process_nm / 16)
///   x      = (power / knee)^(1 / exponent)
///   thr    = (1 + x^-12)^(-1/12); 1 on a pinned board, on tensor cores, and from Ampere on, where
///            each kernel is slowed by what it draws: see tensor_power.hpp
///   rate   = peak(start) * ceiling * thr * (dense_factor if 32 lanes hang on a single-issue
///   scheduler, Ampere on)
///            and * half_factor where CUDA cores run 16-bit pairs faster than FP32
/// L2 follows the SM clock, DRAM does not.
/// The peak in `power` is FP32 on CUDA cores.
/// A precision without a unit on this GPU runs at the next wider one that exists (FP16 storage,
/// FP32 arithmetic). What the memory and an idle chip draw is not there for arithmetic; and since
/// the voltage falls with the clock, the clock gives way more slowly than the power (exponent 1
/// where the voltage is at its floor, up to 3 at the top). Source of the form: COST_MODEL.md
/// section 1 (prototype on eight GPUs), with these two changes: notes/0002. On tensor cores an
/// operation takes `energy` times the energy that it takes in a short run.
[[nodiscard]] SustainedGpu sustain(const GpuSpec& gpu, Precision precision, MathUnit unit,
                                   const CostProfile& profile, double energy = 1);

/// `sustain` of one board for every format and unit, worked out once for the thousands of kernels
/// that ask: in the middle of a long run, where tensor cores take tensor_gemm.sustained_of times
/// the energy that they take in a table's few repetitions (notes/0002). Refers to what it was made
/// of.
class SustainedBoard {
 public:
  SustainedBoard(const GpuSpec& gpu, const CostProfile& profile);
  [[nodiscard]] const SustainedGpu& at(Precision precision, MathUnit unit) const {
    return machines_[index_of(precision, unit)];
  }
  [[nodiscard]] const SustainedGpu& at(std::size_t index) const { return machines_[index]; }
  [[nodiscard]] const TensorGemmMachine& gemms(GemmFormat format) const {
    return gemms_[static_cast<std::size_t>(format)];
  }
  [[nodiscard]] const GpuSpec& gpu() const { return gpu_; }
  [[nodiscard]] const CostProfile& profile() const { return profile_; }

  static constexpr std::size_t kPrecisions = 8, kUnits = 2;
  [[nodiscard]] static constexpr std::size_t index_of(Precision precision, MathUnit unit) {
    return static_cast<std::size_t>(precision) * kUnits + static_cast<std::size_t>(unit);
  }

 private:
  const GpuSpec& gpu_;
  const CostProfile& profile_;
  std::array<SustainedGpu, kPrecisions * kUnits> machines_;
  std::vector<TensorGemmMachine> gemms_;  ///< by format
};

/// `gpu` with its clock pinned, as benchmarks do with application clocks: clocks and peaks scaled,
/// the rest kept.
[[nodiscard]] GpuSpec pinned_at(const GpuSpec& gpu, Hertz clock);

}  // namespace tracecast::cost
