#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast::cost {

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
