#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast::cost {

/// How many times the rate that a board's peak grants for products in this format its silicon has; 1: not cut. GeForce and some server
/// boards add fp32 at half the rate, H20 keeps a quarter, B300 a thirtieth in integers. What waits for registers, shared memory and CUDA cores
/// is not cut with it. Of 16 bits an SM has per clock 1,024 FLOP (compute capability 7.x, 8.6, 8.9, 12.x), 2,048 (8.0), 4,096 (9.x) or
/// 8,192 (10.x), of others as their width goes. Source: NVIDIA's whitepapers of V100, A100, GA102, Ada, H100 and RTX Blackwell;
/// Blackwell's follows from its peak. Peaks are stated up to a tenth below the highest clock, which is no cut.
[[nodiscard]] double tensor_cut(const GpuSpec& gpu, ProductFormat format);

/// What calls of engines, which choose their own clock, need to know of a board.
struct TensorBoard {
  TensorBoard(const GpuSpec& gpu, const CostProfile& profile);
  MmaKind kind;
  double sms, clock;  ///< Hz, before the power limit
  double shared_kib;  ///< of an SM
  double bandwidth;   ///< bytes/s in the board's ECC state, before what is achieved of it
  double l2;          ///< bytes that hold distinct data
  /// FLOP/s at `clock`.
  [[nodiscard]] double peak(ProductFormat format) const;
  /// How much longer arithmetic of `seconds` at `clock` takes under the board's power limit (TensorPower); `energy` of an
  /// operation over that of products in this format.
  [[nodiscard]] double slowdown(ProductFormat format, double energy, double flops,
                                double seconds) const;

 private:
  const GpuSpec* gpu_;
  const CostProfile* profile_;
};

}  // namespace tracecast::cost
