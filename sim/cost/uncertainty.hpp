#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/cost/price.hpp"

namespace tracecast::cost {

/// How far off an estimate is expected to be: standard deviations of ln(measured / predicted).
struct Uncertainty {
  double log_sd = 0;         ///< of this kernel
  double shared_log_sd = 0;  ///< of it, what all kernels of its form on this GPU have in common
};

/// Peak that tells how fast a board is in a form: of tensor cores in 16 bits for forms that run on
/// them, else fp32.
[[nodiscard]] FlopsPerSecond peak_of_form(CostForm form, const GpuSpec& gpu);
/// How far a board is beyond those that a form was fitted on: greater of ln(peak / greatest peak)
/// and ln(bandwidth / greatest bandwidth) there, at least 0; 0 on the board that a local
/// calibration measured, and where the profile does not know.
[[nodiscard]] double beyond_fit(CostForm form, const GpuSpec& gpu, const CostProfile& profile);
/// Of the error of GEMMs on tensor cores, what their board's generation and speed add.
[[nodiscard]] double gemm_board_uncertainty(const GpuSpec& gpu, const CostProfile& profile);

/// What an estimate knows of its own error.
///   log_sd^2 = base^2 + under-occupied^2 + rules^2 + narrow^2 + limit^2 + beyond^2
///   shared^2 = min(board, base)^2 + narrow^2 + limit^2 + beyond^2
/// beyond: boards faster than any of the fit, per unit of beyond_fit(); GEMMs:
/// gemm_board_uncertainty(). base: error.FORM.BASIS, twice that of `spec` for a bounded guess.
/// under-occupied: where the bound is latency. rules: GEMMs on CUDA cores, not batched, before
/// Volta: there the library picks among tiles by rules of its years, which the fastest tile does
/// not reproduce; batched GEMMs have one tile, and from Volta on searching agrees with the rules.
/// narrow: 8- and 16-bit data off the tensor cores, by whether the kernel multiplies. limit:
/// power_limit * -ln(throttle) * compute / duration. Fitted to GPUs left out,
/// calibrate/fit/spread.hpp; why these, calibrate/notes/0002.
[[nodiscard]] Uncertainty error_sd(const KernelEstimate& estimate, const Kernel& kernel,
                                   double throttle, const GpuSpec& gpu, const CostProfile& profile);

}  // namespace tracecast::cost
