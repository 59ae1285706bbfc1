#include "sim/cost/spread.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast::cost {
namespace {

double base_of(Basis basis, const ErrorSpread& spread) {
  switch (basis) {
    case Basis::Measured:
      return spread.measured;
    case Basis::Transferred:
      return spread.transferred;
    case Basis::Spec:
      return spread.spec;
    case Basis::Unknown:
      break;
  }
  return 2.0 * spread.spec;  // a bound: twice as uncertain as a form without data
}

/// Data of less than 32 bits that pass through CUDA cores.
double narrow_of(const Kernel& kernel, CostForm form, const ErrorCauses& causes) {
  if (kernel.unit == MathUnit::TensorCore || element_size(kernel.data) >= Bytes(4)) return 0;
  const bool multiplies = form == CostForm::Gemm || form == CostForm::Convolution;
  return multiplies ? causes.narrow_arithmetic : causes.narrow_stream;
}

}  // namespace

Spread error_spread(const KernelEstimate& estimate, const Kernel& kernel, double throttle,
                    const GpuSpec& gpu, const CostProfile& profile) {
  const ErrorCauses& causes = profile.error_causes;
  const CostForm form = form_of(kernel);
  const bool is_product = form == CostForm::Product;
  const bool by_itself = form >= CostForm::Product;  // chooses its own clock, fitted by itself
  const bool is_new_board = by_itself && estimate.basis == Basis::Transferred;
  const ErrorSpread& known = profile.error[static_cast<std::size_t>(form)];
  const double base =
      is_new_board ? std::max(known.transferred, known.spec) : base_of(estimate.basis, known);
  const bool by_rules = form == CostForm::Gemm && kernel.kernel_class == KernelClass::Gemm &&
                        gpu.architecture < Architecture::Volta;
  const bool is_starved = estimate.bound == Bound::Latency && !by_itself;
  const double starved = is_starved ? causes.starved : 0;
  const double rules = by_rules ? causes.library_rules : 0;
  const double compute_share = estimate.duration > Seconds(0)
                                   ? std::min(1.0, estimate.compute_time / estimate.duration)
                                   : 0.0;
  // What a limit does to products is in their own error.
  const double limit = by_itself ? 0 : causes.power_limit * -std::log(throttle) * compute_share;
  const bool is_narrow = is_product && element_size(kernel.math) < Bytes(2);
  const double common =
      std::hypot(narrow_of(kernel, form, causes), limit, is_narrow ? causes.product_format : 0);
  return {.log_sd = std::hypot(std::hypot(base, common), std::hypot(starved, rules)),
          .shared_log_sd = std::hypot(std::min(causes.board, base), common)};
}

}  // namespace tracecast::cost
