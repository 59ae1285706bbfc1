#include "sim/cost/tensor_board.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/tensor_gemm.hpp"
#include "sim/cost/tensor_power.hpp"

namespace tracecast::cost {
namespace {

/// Operations of 16 bits that whole tensor cores of an SM do in a clock; 0: not known. Sources:
/// NVIDIA's architecture whitepapers: V100 and T4 8 tensor cores of 64 multiply-adds, A100 4 of
/// 256, GA102 and AD102 4 of 128, H100 4 of 512; Blackwell's brief: B200 4 of 1,024; RTX
/// Blackwell's: 4 of 128.
double whole_operations(int compute_capability) {
  switch (compute_capability / 10) {
    case 7:
    case 12:
      return 1024;
    case 8:
      return compute_capability == 80 ? 2048 : 1024;
    case 9:
      return 4096;
    case 10:
      return 8192;
    default:
      return 0;
  }
}

/// Operations in a format over those of 16 bits, by the width of its operands.
double by_width(Precision math) {
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

/// Whole tensor cores over what a spec states, as far as its clock explains it: data sheets print
/// peaks at clocks of their own, from a tenth below the boost clock of a spec to a tenth above.
constexpr double kStatedBelow = 1.1, kStatedAbove = 0.9;
/// Share of its peak that the best kernel reaches.
constexpr double kFullShare = 0.97;

double cubed(double x) { return x * x * x; }

}  // namespace

bool has_l2_halves(const GpuSpec& gpu) {
  return gpu.compute_capability / 10 == 9 || gpu.compute_capability / 10 == 10 ||
         gpu.compute_capability == 80;
}

StatedPeak stated_peak(const GpuSpec& gpu, GemmFormat format) {
  for (const Precision math : {math_of(format), Precision::Fp16}) {
    if (const auto peak = gpu.find_peak(math, MathUnit::TensorCore)) return {*peak, math};
  }
  return {gpu.peak_fp32(), std::nullopt};
}

double tensor_cut(const GpuSpec& gpu, GemmFormat format) {
  const StatedPeak peak = stated_peak(gpu, format);
  const double operations = whole_operations(gpu.compute_capability);
  if (!peak.math || !(operations > 0)) return 1;
  const double whole =
      operations * by_width(*peak.math) * std::max(gpu.sm_count, 1) * gpu.boost_clock.in_si();
  const double ratio = whole / peak.rate.in_si();
  return ratio > kStatedBelow ? ratio / kStatedBelow : std::min(1.0, ratio / kStatedAbove);
}

double TensorRates::at(double efficiency) const {
  if (efficiency >= kFullShare || !(efficiency > 0)) return peak * efficiency;
  const double at_peak = cubed(1 / (kFullShare * peak));
  const double rest = (cubed(1 / efficiency) - cubed(1 / kFullShare)) / cubed(whole);
  return 1 / std::cbrt(at_peak + rest);
}

TensorBoard::TensorBoard(const GpuSpec& gpu, const CostProfile& profile)
    : kind(mma_kind(gpu)), gpu_(&gpu), profile_(&profile) {
  sms = std::max(gpu.sm_count, 1);
  clock = starting_clock(gpu, profile).in_si();
  shared_kib = gpu.shared_memory_per_sm.in_bytes() / 1024;
  compute_capability = gpu.compute_capability;
  const double ecc_loss = has_gddr(gpu) && gpu.ecc_default_on ? 1 - gpu.ecc_bandwidth_fraction : 0;
  bandwidth = gpu.dram_bandwidth.in_si() *
              (1 - std::min(1.0, profile.tensor_gemm.ecc_cost) * ecc_loss) *
              board_factors(profile, gpu).bandwidth;
  l2 = gpu.l2.in_bytes() * (has_l2_halves(gpu) ? 0.5 : 1);
}

double TensorBoard::peak(GemmFormat format) const {
  return stated_peak(*gpu_, format).rate.in_si() * clock / gpu_->boost_clock.in_si() *
         board_factors(*profile_, *gpu_).arithmetic;
}

TensorRates TensorBoard::rates(GemmFormat format) const {
  const double own = peak(format) / sms;
  return {.peak = own, .whole = own * tensor_cut(*gpu_, format)};
}

Seconds TensorBoard::library_gemm(double batch, double m, double n, double k) const {
  const TensorGemmMachine machine(*gpu_, GemmFormat::Half, *profile_);
  TensorGemm gemm;
  gemm.batch = batch;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  return machine.estimate(gemm).duration;
}

double TensorBoard::softmax_cycles(double softmax) const {
  // CUDA C++ Programming Guide, Throughput of Native Arithmetic Instructions: 16 from 7.5 on.
  // NVIDIA's technical blog, Inside NVIDIA Blackwell Ultra: twice the exponentials.
  constexpr double kUnits = 16;
  const double exponentials = compute_capability == 103 ? 2 * kUnits : kUnits;
  return std::min(softmax, 1.0) / exponentials + std::max(softmax - 1, 0.0) / kUnits;
}

double TensorBoard::slowdown(GemmFormat format, double energy, double flops, double seconds) const {
  const TensorPower power(*gpu_, energy * profile_->tensor_gemm.format(format).energy, *profile_);
  return 1 / power.clock_share({.flops = flops, .arithmetic = Seconds(seconds)});
}

}  // namespace tracecast::cost
