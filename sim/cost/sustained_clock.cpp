#include "sim/cost/sustained_clock.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/tensor_gemm.hpp"

namespace tracecast::cost {
namespace {

/// (1 + x^-12)^(-1/12): x for small x, 1 for large x, 0.94 at 1.
double soft_minimum_of_one_and(double x) {
  const double cube = x * x * x;
  const double sixth = cube * cube;
  return 1.0 / std::cbrt(std::sqrt(std::sqrt(1.0 + 1.0 / (sixth * sixth))));
}

/// Peak of the asked format, or of the next wider one that this GPU has.
FlopsPerSecond peak_or_wider(const GpuSpec& gpu, Precision precision, MathUnit unit) {
  if (const auto peak = gpu.find_peak(precision, unit)) return *peak;
  if (unit == MathUnit::TensorCore) {
    if (const auto half = gpu.find_peak(Precision::Fp16, unit);
        half && precision != Precision::Tf32)
      return *half;
  }
  return gpu.peak_fp32();
}

}  // namespace

Hertz default_clock(const GpuSpec& gpu) {
  return gpu.compute_capability <= 35 ? gpu.application_clock : gpu.boost_clock;
}

Hertz free_clock(const GpuSpec& gpu, const CostProfile& profile) {
  const bool offers_ecc = gpu.ecc_default_on || gpu.ecc_bandwidth_fraction < 1;
  const bool boosts = !offers_ecc && !is_pinned(gpu);
  return default_clock(gpu) * (boosts ? profile.clock.consumer_boost : 1.0);
}

Watts active_idle_power(const GpuSpec& gpu, const CostProfile& profile) {
  constexpr double kPico = 1e-12;
  const double clocked = has_gddr(gpu) ? kPico * profile.power.gddr_active_idle_pj_per_byte *
                                             gddr_energy(gpu, profile) * gpu.dram_bandwidth.in_si()
                                       : 0.0;
  return gpu.idle_power + Watts(clocked);
}

Watts waiting_power(const GpuSpec& gpu, const CostProfile& profile) {
  const bool is_clocked = mma_kind(gpu) >= MmaKind::WarpGroup && !has_gddr(gpu);
  return active_idle_power(gpu, profile) +
         Watts(is_clocked
                   ? 1e-12 * profile.power.hbm_active_idle_pj_per_byte * gpu.dram_bandwidth.in_si()
                   : 0.0);
}

double dram_efficiency(const GpuSpec& gpu, const CostProfile& profile) {
  return gpu.architecture >= Architecture::Volta ? profile.memory.efficiency
                                                 : profile.memory.old_efficiency;
}

SustainedGpu sustain(const GpuSpec& gpu, Precision precision, MathUnit unit,
                     const CostProfile& profile, double energy) {
  const ClockParameters& p = profile.clock;
  const FlopsPerSecond fp32 = gpu.peak_fp32();
  FlopsPerSecond peak = fp32;
  if (precision != Precision::Fp32 || unit != MathUnit::CudaCore) {
    peak = peak_or_wider(gpu, precision, unit);
  }
  const bool on_tensor_cores = unit == MathUnit::TensorCore && peak > fp32;
  const bool is_set = gpu.set_clock > Hertz(0);
  const double free = free_clock(gpu, profile) / gpu.boost_clock;
  const double start = is_set ? gpu.set_clock / gpu.boost_clock : free;
  // A limit below the active-idle power leaves a crawl, which the lowest clock of a power limit
  // bounds further on.
  const Watts left = max(gpu.tdp - active_idle_power(gpu, profile), gpu.tdp * 0.01);
  const double power = left.in_w() / (fp32.in_tflop_per_s() * start) / (gpu.process_nm / 16.0);
  const bool by_kernel = mma_kind(gpu) >= MmaKind::AsyncWarp;
  const double throttle =
      is_pinned(gpu) || on_tensor_cores || by_kernel
          ? 1.0
          : soft_minimum_of_one_and(std::pow(power / p.knee_w_per_tflops, 1 / p.power_exponent));
  const bool dense = unit == MathUnit::CudaCore && gpu.architecture >= Architecture::Ampere &&
                     gpu.fp32_lanes_per_scheduler() >= 32;

  SustainedGpu result;
  if (on_tensor_cores)
    result.tensor_power.emplace(gpu, energy_by_width(gpu, precision) * energy, profile);
  if (by_kernel)
    result.kernel_power.emplace(gpu, energy_by_width(gpu, precision) * energy, profile);
  result.sm_count = std::max(gpu.sm_count, 1);
  result.throttle = throttle;
  result.clock_share = start * throttle;
  result.clock = gpu.boost_clock * result.clock_share;
  const bool half =
      unit == MathUnit::CudaCore && peak > fp32 && element_size(precision) == Bytes(2);
  const BoardFactors board = board_factors(profile, gpu);
  result.arithmetic = peak * (result.clock_share * p.ceiling * (dense ? p.dense_factor : 1.0) *
                              (half ? p.half_factor : 1.0) * board.arithmetic);
  result.free_clock = gpu.boost_clock * start;
  result.stream = gpu.effective_bandwidth() * (dram_efficiency(gpu, profile) * board.bandwidth);
  result.l2 = BytesPerSecond(profile.memory.l2_bytes_per_clock * result.sm_count *
                             default_clock(gpu).in_si() * (start / free));
  // A100 and H100 keep data twice: each half of L2 serves its own SMs. Source: NVIDIA A100
  // whitepaper, "L2 cache".
  const bool halves = gpu.compute_capability == 80 || gpu.compute_capability == 90;
  result.l2_bytes = gpu.l2.in_bytes() * (halves ? 0.5 : 1.0);
  return result;
}

SustainedBoard::SustainedBoard(const GpuSpec& gpu, const CostProfile& profile)
    : gpu_(gpu), profile_(profile) {
  const double energy = profile.tensor_gemm.sustained_of[mma_kind(gpu)];
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    machines_[i] = sustain(gpu, static_cast<Precision>(i / kUnits),
                           static_cast<MathUnit>(i % kUnits), profile, energy);
  }
  gemms_.reserve(kGemmFormatCount);
  for (std::size_t f = 0; f < kGemmFormatCount; ++f) {
    gemms_.emplace_back(gpu, static_cast<GemmFormat>(f), profile, energy);
  }
}

GpuSpec pinned_at(const GpuSpec& gpu, Hertz clock) {
  GpuSpec pinned = gpu;
  for (PeakRate& peak : pinned.peaks) peak.rate = peak.rate * (clock / gpu.boost_clock);
  pinned.base_clock = clock;
  pinned.boost_clock = clock;
  pinned.application_clock = clock;
  return pinned;
}

}  // namespace tracecast::cost
