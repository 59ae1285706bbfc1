#include "sim/cost/uncertainty.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast::cost {
namespace {

double base_of(Basis basis, const ErrorSd& uncertainty) {
  switch (basis) {
    case Basis::Measured:
      return uncertainty.measured;
    case Basis::Transferred:
      return uncertainty.transferred;
    case Basis::Spec:
      return uncertainty.spec;
    case Basis::Unknown:
      break;
  }
  return 2.0 * uncertainty.spec;  // a bound: twice as uncertain as a form without data
}

/// Data of less than 32 bits that pass through CUDA cores.
double low_precision_of(const Kernel& kernel, CostForm form, const ErrorCauses& causes) {
  if (kernel.unit == MathUnit::TensorCore || element_size(kernel.data) >= Bytes(4)) return 0;
  const bool multiplies = form == CostForm::Gemm || form == CostForm::Convolution;
  return multiplies ? causes.low_precision_arithmetic : causes.low_precision_stream;
}

}  // namespace

FlopsPerSecond peak_of_form(CostForm form, const GpuSpec& gpu) {
  const auto tensor = gpu.find_peak(Precision::Fp16, MathUnit::TensorCore);
  const bool on_tensor_cores = form >= CostForm::TensorGemm || form == CostForm::TensorCore;
  return on_tensor_cores && tensor ? *tensor : gpu.peak_fp32();
}

double beyond_fit(CostForm form, const GpuSpec& gpu, const CostProfile& profile) {
  const FormReach& reach = profile.reach[static_cast<std::size_t>(form)];
  const bool is_measured = !profile.measured_gpu.empty() && profile.measured_gpu == gpu.id;
  if (is_measured || !(reach.tflop_per_s > 0) || !(reach.gb_per_s > 0)) return 0;
  return std::max({0.0, std::log(peak_of_form(form, gpu).in_tflop_per_s() / reach.tflop_per_s),
                   std::log(gpu.dram_bandwidth.in_si() * 1e-9 / reach.gb_per_s)});
}

double gemm_board_uncertainty(const GpuSpec& gpu, const CostProfile& profile) {
  const ErrorCauses& causes = profile.error_causes;
  const double warp = mma_kind(gpu) == MmaKind::Warp ? causes.tensor_gemm_warp : 0;
  return std::hypot(warp,
                    causes.tensor_gemm_beyond * beyond_fit(CostForm::TensorGemm, gpu, profile));
}

Uncertainty error_sd(const KernelEstimate& estimate, const Kernel& kernel, double throttle,
                     const GpuSpec& gpu, const CostProfile& profile) {
  const ErrorCauses& causes = profile.error_causes;
  const CostForm form = form_of(kernel);
  const bool is_gemm = form == CostForm::TensorGemm;
  const bool by_itself = form >= CostForm::TensorGemm;  // chooses its own clock, fitted by itself
  const bool is_new_board = by_itself && estimate.basis == Basis::Transferred;
  const ErrorSd& known = profile.error[static_cast<std::size_t>(form)];
  const double base =
      is_new_board ? std::max(known.transferred, known.spec) : base_of(estimate.basis, known);
  const bool by_rules = form == CostForm::Gemm && kernel.kernel_class == KernelClass::Gemm &&
                        gpu.architecture < Architecture::Volta;
  const bool is_under_occupied = estimate.bound == Bound::Latency && !by_itself;
  const double under_occupied = is_under_occupied ? causes.under_occupied : 0;
  const double rules = by_rules ? causes.library_rules : 0;
  const double compute_share = estimate.duration > Seconds(0)
                                   ? std::min(1.0, estimate.compute_time / estimate.duration)
                                   : 0.0;
  // What a limit does to GEMMs is in their own error.
  const double limit = by_itself ? 0 : causes.power_limit * -std::log(throttle) * compute_share;
  const bool is_low_precision = is_gemm && element_size(kernel.math) < Bytes(2);
  // Of tensor cores' GEMMs, whose kernels these are is not known here: the vendor's library.
  const double board = is_gemm     ? gemm_board_uncertainty(gpu, profile)
                       : by_itself ? 0
                                   : causes.beyond * beyond_fit(form, gpu, profile);
  // By what is kept, the families differ; by operands alone, only these are told apart.
  const FormatFamily family = element_size(kernel.math) < Bytes(1) ? FormatFamily::Fours
                              : kernel.math == Precision::Int8     ? FormatFamily::Int8
                                                                   : FormatFamily::Scaled;
  const double format =
      is_low_precision ? std::hypot(causes.tensor_gemm_format[0],
                                    causes.tensor_gemm_family[static_cast<std::size_t>(family)])
                       : 0;
  const double common = std::hypot(std::hypot(low_precision_of(kernel, form, causes), limit),
                                   std::hypot(format, board));
  return {.log_sd = std::hypot(std::hypot(base, common), std::hypot(under_occupied, rules)),
          .shared_log_sd = std::hypot(std::min(causes.board, base), common)};
}

}  // namespace tracecast::cost
