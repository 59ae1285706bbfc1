#include "sim/cost/tensor_board.hpp"

#include <algorithm>

#include "sim/cost/tensor_power.hpp"

namespace tracecast::cost {
namespace {

/// Two halves that keep data twice: as in product.cpp.
bool has_l2_halves(const GpuSpec& gpu) {
  return gpu.compute_capability / 10 == 9 || gpu.compute_capability / 10 == 10 ||
         gpu.compute_capability == 80;
}

/// FLOP a clock and SM of 16-bit products, of the whole silicon.
double half_rate_of(int compute_capability) {
  const int major = compute_capability / 10;
  if (major <= 7 || major == 12) return 1024;
  if (major == 8) return compute_capability == 80 ? 2048 : 1024;
  return major == 9 ? 4096 : 8192;
}

/// Operations for one of 16 bits.
double per_half(Precision math) {
  switch (math) {
    case Precision::Tf32:
      return 0.5;
    case Precision::Fp8:
    case Precision::Int8:
      return 2;
    case Precision::Fp4:
      return 4;
    default:
      return 1;
  }
}

}  // namespace

double tensor_cut(const GpuSpec& gpu, ProductFormat format) {
  constexpr double kStatedBelow = 1.1;  // what the highest clock gives
  Precision math = math_of(format);
  auto peak = gpu.find_peak(math, MathUnit::TensorCore);
  if (!peak) {
    math = Precision::Fp16;
    peak = gpu.find_peak(math, MathUnit::TensorCore);
  }
  if (!peak) return 1;
  const double whole = half_rate_of(gpu.compute_capability) * per_half(math) *
                       std::max(gpu.sm_count, 1) * gpu.boost_clock.in_si();
  return std::max(1.0, whole / (kStatedBelow * peak->in_si()));
}

TensorBoard::TensorBoard(const GpuSpec& gpu, const CostProfile& profile)
    : kind(mma_kind(gpu)), gpu_(&gpu), profile_(&profile) {
  sms = std::max(gpu.sm_count, 1);
  clock = starting_clock(gpu, profile).in_si();
  shared_kib = gpu.shared_memory_per_sm.in_bytes() / 1024;
  const double ecc_loss = has_gddr(gpu) && gpu.ecc_default_on ? 1 - gpu.ecc_bandwidth_fraction : 0;
  bandwidth = gpu.dram_bandwidth.in_si() *
              (1 - std::min(1.0, profile.product.ecc_cost) * ecc_loss) *
              board_factors(profile, gpu).bandwidth;
  l2 = gpu.l2.in_bytes() * (has_l2_halves(gpu) ? 0.5 : 1);
}

double TensorBoard::peak(ProductFormat format) const {
  auto peak = gpu_->find_peak(math_of(format), MathUnit::TensorCore);
  if (!peak) peak = gpu_->find_peak(Precision::Fp16, MathUnit::TensorCore);
  return peak.value_or(gpu_->peak_fp32()).in_si() * clock / gpu_->boost_clock.in_si() *
         board_factors(*profile_, *gpu_).arithmetic;
}

double TensorBoard::slowdown(ProductFormat format, double energy, double flops,
                             double seconds) const {
  const TensorPower power(*gpu_, energy * profile_->product.format(format).energy, *profile_);
  return 1 / power.clock_share({.flops = flops, .arithmetic = Seconds(seconds)});
}

}  // namespace tracecast::cost
