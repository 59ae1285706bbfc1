#include "sim/cost/tensor_power.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast::cost {
namespace {

constexpr double kPico = 1e-12;
constexpr double kReferenceLaneNode_nm = 16;  // of power.*
constexpr double kReferenceNode_nm = 7, kReferenceClock = 1.41e9;
/// No driver lowers a clock further than this for a power limit of its own board.
constexpr double kLeastClockShare = 0.05;
constexpr int kHalvings = 10;

/// Steps from the first generation that copies asynchronously.
double generation_steps(MmaKind kind) {
  return std::max(0.0, static_cast<double>(kind) - static_cast<double>(MmaKind::AsyncWarp));
}

double joule_per_flop(const GpuSpec& gpu, double clock, const TensorGemmParameters& p) {
  const MmaKind kind = mma_kind(gpu);
  return kPico * p.flop_pj * std::pow(p.energy_step, generation_steps(kind)) * p.energy_of[kind] *
         std::pow(gpu.process_nm / kReferenceNode_nm, p.node_exponent) *
         std::pow(clock / kReferenceClock, p.clock_exponent - 1);
}

/// Watts that a busy board draws beside arithmetic and memory at its free clock, by the limit that
/// it is sold with where a greater one is set.
double base_power(const GpuSpec& gpu, const CostProfile& profile) {
  const Watts limit = gpu.rated_power > Watts() ? min(gpu.tdp, gpu.rated_power) : gpu.tdp;
  return profile.tensor_gemm.base_share *
         std::max(0.0, (limit - active_idle_power(gpu, profile)).in_w());
}

/// What a board that starts from another clock than its free one draws of that: clocks drive it.
double clocked_share(const GpuSpec& gpu, const CostProfile& profile) {
  return std::pow(starting_clock(gpu, profile) / free_clock(gpu, profile),
                  profile.tensor_gemm.clock_exponent);
}

}  // namespace

TensorPower::TensorPower(const GpuSpec& gpu, double energy, const CostProfile& profile)
    : active_idle_w_(active_idle_power(gpu, profile).in_w()),
      limit_w_(gpu.tdp.in_w()),
      base_w_(base_power(gpu, profile)),
      clocked_base_w_(base_w_ * clocked_share(gpu, profile)),
      joule_per_flop_(
          energy * joule_per_flop(gpu, starting_clock(gpu, profile).in_si(), profile.tensor_gemm)),
      joule_per_byte_(joule_per_byte(gpu, profile)),
      voltage_exponent_(profile.tensor_gemm.clock_exponent - 1),
      is_pinned_(is_pinned(gpu)) {}

double TensorPower::clock_share(const TensorLoad& load) const {
  if (is_pinned_) return 1;
  const double memory_j = joule_per_byte_ * load.dram_bytes;
  const double arithmetic_j = joule_per_flop_ * load.flops;
  const double left = limit_w_ - active_idle_w_ - base_w_;
  const auto exceeds = [&](double share) {
    return memory_j + arithmetic_j * std::pow(share, voltage_exponent_) >
           left * duration_at(load, share).in_s();
  };
  if (!exceeds(1)) return 1;
  double low = kLeastClockShare, high = 1;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (exceeds(middle) ? high : low) = middle;
  }
  return low;
}

Watts TensorPower::power(const TensorLoad& load, double share) const {
  const double busy = duration_at(load, share).in_s();
  if (!(busy > 0)) return Watts(active_idle_w_);
  const double energy = joule_per_byte_ * load.dram_bytes +
                        std::pow(share, voltage_exponent_) * joule_per_flop_ * load.flops;
  return Watts(std::min(limit_w_, active_idle_w_ + clocked_base_w_ + energy / busy));
}

KernelPower::KernelPower(const GpuSpec& gpu, double energy, const CostProfile& profile)
    : waiting_w_(waiting_power(gpu, profile).in_w()),
      full_w_(
          std::max(waiting_w_, active_idle_power(gpu, profile).in_w() + base_power(gpu, profile))),
      limit_w_(gpu.tdp.in_w()),
      clock_share_(starting_clock(gpu, profile) / free_clock(gpu, profile)),
      joule_per_byte_(joule_per_byte(gpu, profile)),
      voltage_exponent_(profile.tensor_gemm.clock_exponent - 1),
      least_share_(profile.power.min_clock),
      is_pinned_(is_pinned(gpu)) {
  const double voltage = std::pow(clock_share_, voltage_exponent_);
  joule_per_passed_ = kPico * voltage * profile.power.pass_pj_per_byte;
  joule_per_gemm_byte_ = joule_per_passed_ * profile.power.gemm_pass_of;
  joule_per_flop_ =
      energy * joule_per_flop(gpu, starting_clock(gpu, profile).in_si(), profile.tensor_gemm);
  const bool by_warps = mma_kind(gpu) < MmaKind::WarpGroup;
  const double busy_of = by_warps ? profile.power.warp_busy_of : 1.0;
  joule_per_lane_flop_ =
      by_warps ? kPico * voltage * profile.power.flop_pj *
                     std::pow(gpu.process_nm / kReferenceLaneNode_nm, profile.power.node_exponent)
               : 0.0;
  busy_w_ = kPico * voltage * profile.power.busy_cycle_pj * busy_of * std::max(gpu.sm_count, 1) *
            starting_clock(gpu, profile).in_si();
}

Watts KernelPower::of(const KernelLoad& load) const {
  return Watts(std::min(limit_w_, asked(load)));
}

Watts KernelPower::in_long_run(Watts alone, double bytes, Seconds duration, double throttle) const {
  if (!(duration > Seconds())) return alone;
  const double passes = std::pow(throttle, voltage_exponent_) * joule_per_gemm_byte_ * bytes;
  return Watts(std::min(limit_w_, alone.in_w() + passes / duration.in_s()));
}

double KernelPower::clock_share(KernelLoad load, const Roofs& roofs, Seconds fill) const {
  if (is_pinned_) return 1;
  const auto exceeds = [&](double share) {
    Roofs slowed = roofs;
    slowed.compute = roofs.compute / share;
    const Seconds busy = combine(slowed);
    load.working = slowed.compute;
    load.duration = busy + fill;
    load.sm_share = load.duration > Seconds() ? roofs.sm_share * (busy / load.duration) : 1.0;
    load.throttle = share;
    return asked(load) > limit_w_;
  };
  if (!exceeds(1)) return 1;
  double low = least_share_, high = 1;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (exceeds(middle) ? high : low) = middle;
  }
  return low;
}

double KernelPower::asked(const KernelLoad& load) const {
  const double seconds = load.duration.in_s();
  if (!(seconds > 0)) return waiting_w_;
  const double voltage = std::pow(load.throttle, voltage_exponent_);
  const double working = std::min(load.duration.in_s(), load.working.in_s());
  const double below_peak = std::max(0.0, working - load.at_peak.in_s());
  const double joules =
      joule_per_byte_ * load.dram_bytes +
      voltage * (joule_per_passed_ * load.passed_bytes + joule_per_flop_ * load.flops +
                 joule_per_lane_flop_ * load.lane_flops +
                 busy_w_ * load.throttle * load.sm_share * below_peak);
  const double clocked =
      load.sm_share * std::pow(clock_share_ * load.throttle, voltage_exponent_ + 1);
  return waiting_w_ + clocked * (full_w_ - waiting_w_) + joules / seconds;
}

Seconds duration_at(const TensorLoad& load, double share) {
  return load.fixed +
         Seconds(overlapped(load.arithmetic.in_s() / share, load.operands.in_s() / share,
                            load.memory.in_s(), load.overlap));
}

double energy_by_width(const GpuSpec& gpu, Precision precision) {
  const auto half = gpu.find_peak(Precision::Fp16, MathUnit::TensorCore);
  const auto peak = gpu.find_peak(precision, MathUnit::TensorCore);
  return half && peak ? *half / *peak : 1.0;
}

double gddr_energy(const GpuSpec& gpu, const CostProfile& profile) {
  switch (gpu.memory_type) {
    case MemoryType::Gddr6x:
      return profile.power.gddr6x_of;
    case MemoryType::Gddr7:
      return profile.power.gddr7_of;
    default:
      return 1;
  }
}

double joule_per_byte(const GpuSpec& gpu, const CostProfile& profile) {
  return kPico * (has_gddr(gpu) ? profile.tensor_gemm.gddr_pj_per_byte * gddr_energy(gpu, profile)
                                : profile.tensor_gemm.hbm_pj_per_byte);
}

Hertz starting_clock(const GpuSpec& gpu, const CostProfile& profile) {
  return gpu.set_clock > Hertz(0) ? gpu.set_clock : free_clock(gpu, profile);
}

}  // namespace tracecast::cost
