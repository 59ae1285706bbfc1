#pragma once
#include <array>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/price.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast {

using cost::active_idle_power;
using cost::free_clock;
using cost::waiting_power;

/// Voltage over that of the free clock, for a clock given as a share of the free clock: constant up
/// to voltage_knee, from there linear through (1, 1), and further on the same line. Source: the
/// shape of measured voltage curves of NVIDIA boards, flat below and straight above a knee
/// (Guerreiro et al., "GPGPU power modeling for multi-domain voltage-frequency scaling", HPCA 2018,
/// figure 6).
[[nodiscard]] double voltage_share(double clock_share, const CostProfile& profile);

/// The causes of power, each with what it does per second and is charged for by one parameter.
struct PowerCauses {
  double lanes =
      0;  ///< operations that the lanes of working SMs could do, node and voltage included
  double flops =
      0;  ///< operations on CUDA cores, in units of four bytes; node and voltage included
  double tensor_flops =
      0;  ///< operations on tensor cores, in units of two bytes; node and voltage included
  double dram_bytes = 0;
  double reported_w = 0;  ///< over the active-idle power, of kernels whose price tells it
  PowerCauses& operator+=(const PowerCauses& other);
  friend PowerCauses operator*(PowerCauses causes, double factor);
};

/// What `kernel` does per second while it runs for `duration` on `sm_share` of the SMs, on the
/// board as it is set.
///   node   = (process_nm / 16)^node_exponent,   v = voltage_share(clock / free clock)
///   lanes  = node * v^2 * 2 * sm_count * lanes per SM * clock * sm_share
///   flops  = node * v^2 * flops / duration * width / (4 or 2 bytes)
///   bytes  = min(bytes that miss L2 / duration, pin rate)
/// Lanes are the FP32 lanes; from Volta on at least 32 for each warp scheduler, since integer lanes
/// stand beside them (GA10x made those do FP32 as well). An SM without a block is gated and draws
/// nothing. Needs duration > 0.
[[nodiscard]] PowerCauses power_causes(const Kernel& kernel, Seconds duration, double sm_share,
                                       const GpuSpec& gpu, const CostProfile& profile);
/// node * v^2 of every format and unit, worked out once for all kernels of a step.
class PowerScales {
 public:
  explicit PowerScales(const cost::SustainedBoard& board);
  [[nodiscard]] double of(const Kernel& kernel) const {
    return scales_[cost::SustainedBoard::index_of(kernel.math, kernel.unit)];
  }

 private:
  std::array<double, cost::SustainedBoard::kPrecisions * cost::SustainedBoard::kUnits> scales_{};
};
/// The same as above for one of many kernels on a board.
[[nodiscard]] PowerCauses power_causes(const Kernel& kernel, Seconds duration, double sm_share,
                                       const cost::SustainedBoard& board,
                                       const PowerScales& scales);

/// The same of a priced kernel: the power that its price tells, at most the board's limit, and else
/// its causes.
[[nodiscard]] PowerCauses power_causes(const Kernel& kernel, const cost::KernelEstimate& estimate,
                                       const cost::SustainedBoard& board,
                                       const PowerScales& scales);

/// What the causes draw on top of `waiting_power`: sum of cause * its parameter.
/// Sources: the parts and their order of size after Horowitz, "Computing's energy problem", ISSCC
/// 2014 (an instruction costs far more than its arithmetic), and O'Connor et al., "Fine-Grained
/// DRAM", MICRO 2017 (HBM2 about 4 pJ/bit inside the stack); the numbers are fitted to boards,
/// sim/step/notes/0001. Leaves out: temperature, energy of L2 apart from DRAM.
[[nodiscard]] Watts active_power(const PowerCauses& causes, const GpuSpec& gpu,
                                 const CostProfile& profile);

/// The same of one priced kernel: the power that its price reports, and else its causes. Nothing of
/// one that takes no time.
[[nodiscard]] Watts active_power(const Kernel& kernel, const cost::KernelEstimate& estimate,
                                 const GpuSpec& gpu, const CostProfile& profile);

/// Mean power that a limit leaves of a demand: demand * (1 + (demand / limit)^6)^(-1/6).
/// The controller holds windows of some ten milliseconds below the limit. Their power varies about
/// the step's mean, so that a mean near the limit is cut already, and a demand far above it ends up
/// at the limit.
[[nodiscard]] Watts limited_power(Watts demand, Watts limit);

}  // namespace tracecast
