#pragma once
#include <optional>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast::cost {

/// Compute capability of GeForce and RTX PRO boards of Blackwell, whose instructions are Ampere's.
inline constexpr int kWorkstationBlackwell = 120;

/// L2 of two halves that keep data twice: A100, H100; data-centre Blackwell's two dies alike.
/// Source: NVIDIA A100 whitepaper, "L2 cache"; Blackwell's is a guess that fits (notes/0005).
[[nodiscard]] bool has_l2_halves(const GpuSpec& gpu);

/// Rate at the boost clock that a spec states for GEMMs in a format.
struct StatedPeak {
  FlopsPerSecond rate;
  std::optional<Precision> math;  ///< whose it is; nothing: of fp32 on CUDA cores
};
/// Its own, else that of 16 bits, else of a board without tensor cores.
[[nodiscard]] StatedPeak stated_peak(const GpuSpec& gpu, GemmFormat format);

/// How many times the rate that a board's peak grants for GEMMs in this format its generation's
/// tensor cores have; 1: neither cut nor widened. Makers hold tensor cores back (to a half on
/// GeForce, L40 and L20, to a quarter on H20, to a thirtieth in B300's integers) or widen one
/// format (B300's fp4); what else a kernel does on its SM - issue, operands, conversions - takes as
/// long as before. Peaks are stated a tenth below or above those of the highest clock, which is
/// neither.
[[nodiscard]] double tensor_cut(const GpuSpec& gpu, GemmFormat format);

/// FLOP/s of one SM in one format; tensor_cut().
struct TensorRates {
  double peak = 0;   ///< of this board
  double whole = 0;  ///< what the generation's tensor cores do where nothing holds them back
  /// Rate of a kernel that reaches `efficiency` of whole tensor cores. Of one operation,
  ///   at_peak = 1 / (0.97 peak),   rest^3 = (1/efficiency^3 - 1/0.97^3) / whole^3
  ///   rate    = 1 / (at_peak^3 + rest^3)^(1/3): efficiency * peak where peak = whole
  [[nodiscard]] double at(double efficiency) const;
};

/// What calls of engines, which choose their own clock, need to know of a board.
struct TensorBoard {
  TensorBoard(const GpuSpec& gpu, const CostProfile& profile);
  MmaKind kind;
  double sms, clock;       ///< Hz, before the power limit
  double shared_kib;       ///< of an SM
  int compute_capability;  ///< as GpuSpec has it
  double bandwidth;        ///< bytes/s in the board's ECC state, before what is achieved of it
  double l2;               ///< bytes that hold distinct data
  /// FLOP/s at `clock`.
  [[nodiscard]] double peak(GemmFormat format) const;
  [[nodiscard]] TensorRates rates(GemmFormat format) const;
  /// GEMMs of 16 bits by the vendor's library: out[b, m, n] += [b, m, k] [b, k, n].
  [[nodiscard]] Seconds library_gemm(double batch, double m, double n, double k) const;
  /// Cycles of an SM for the softmax of one score that takes `softmax` times the 1/16 of one
  /// exponential: up to one goes with the units for exponentials, which Blackwell Ultra has twice,
  /// the rest with other lanes.
  [[nodiscard]] double softmax_cycles(double softmax) const;
  /// How much longer arithmetic of `seconds` at `clock` takes under the board's power limit
  /// (TensorPower); `energy` of an operation over that of GEMMs in this format.
  [[nodiscard]] double slowdown(GemmFormat format, double energy, double flops,
                                double seconds) const;

 private:
  const GpuSpec* gpu_;
  const CostProfile* profile_;
};

}  // namespace tracecast::cost
