#include "sim/step/power.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/cost/roofs.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "sim/cost/tensor_power.hpp"

namespace tracecast {
namespace {

constexpr double kPico = 1e-12;
constexpr double kReferenceNode_nm = 16;

/// Arithmetic lanes of one SM that a clock drives.
int lanes_per_sm(const GpuSpec& gpu) {
  return gpu.architecture >= Architecture::Volta
             ? std::max(gpu.fp32_lanes_per_sm, 32 * gpu.warp_schedulers_per_sm)
             : gpu.fp32_lanes_per_sm;
}

}  // namespace

double voltage_share(double clock_share, const CostProfile& profile) {
  const double knee = profile.power.voltage_knee, floor = profile.power.voltage_floor;
  if (clock_share <= knee || knee >= 1) return floor;
  return floor + (1 - floor) * (clock_share - knee) / (1 - knee);
}

PowerCauses& PowerCauses::operator+=(const PowerCauses& other) {
  lanes += other.lanes;
  flops += other.flops;
  tensor_flops += other.tensor_flops;
  dram_bytes += other.dram_bytes;
  reported_w += other.reported_w;
  return *this;
}

PowerCauses operator*(PowerCauses causes, double factor) {
  causes.lanes *= factor;
  causes.flops *= factor;
  causes.tensor_flops *= factor;
  causes.dram_bytes *= factor;
  causes.reported_w *= factor;
  return causes;
}

namespace {

double power_scale(const cost::SustainedGpu& machine, const GpuSpec& gpu,
                   const CostProfile& profile) {
  const double voltage = voltage_share(machine.clock / cost::free_clock(gpu, profile), profile);
  return std::pow(gpu.process_nm / kReferenceNode_nm, profile.power.node_exponent) * voltage *
         voltage;
}

PowerCauses causes_at(const Kernel& kernel, Seconds duration, double sm_share,
                      const cost::SustainedGpu& machine, double scale, const GpuSpec& gpu,
                      const CostProfile& profile) {
  TRACECAST_CHECK(duration > Seconds(0), "a kernel takes time");
  const double flops = scale * kernel.flops.in_flop() / duration.in_s();
  const double width = element_size(kernel.math).in_bytes();
  const double bytes = kernel.bytes().in_bytes();
  const double missed = bytes * cost::miss_share(bytes, machine.l2_bytes, profile.memory.l2_share);
  PowerCauses causes;
  causes.lanes = scale * 2.0 * gpu.sm_count * lanes_per_sm(gpu) * machine.clock.in_si() * sm_share;
  (kernel.unit == MathUnit::TensorCore ? causes.tensor_flops : causes.flops) =
      flops * width / (kernel.unit == MathUnit::TensorCore ? 2.0 : 4.0);
  causes.dram_bytes = std::min(missed / duration.in_s(), gpu.dram_bandwidth.in_si());
  return causes;
}

}  // namespace

PowerCauses power_causes(const Kernel& kernel, Seconds duration, double sm_share,
                         const GpuSpec& gpu, const CostProfile& profile) {
  const cost::SustainedGpu machine = cost::sustain(gpu, kernel.math, kernel.unit, profile);
  return causes_at(kernel, duration, sm_share, machine, power_scale(machine, gpu, profile), gpu,
                   profile);
}

PowerScales::PowerScales(const cost::SustainedBoard& board) {
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    scales_[i] = power_scale(board.at(i), board.gpu(), board.profile());
  }
}

PowerCauses power_causes(const Kernel& kernel, Seconds duration, double sm_share,
                         const cost::SustainedBoard& board, const PowerScales& scales) {
  return causes_at(kernel, duration, sm_share, board.at(kernel.math, kernel.unit),
                   scales.of(kernel), board.gpu(), board.profile());
}

PowerCauses power_causes(const Kernel& kernel, const cost::KernelEstimate& estimate,
                         const cost::SustainedBoard& board, const PowerScales& scales) {
  if (!(estimate.power > Watts())) {
    return power_causes(kernel, estimate.duration, estimate.sm_share, board, scales);
  }
  const GpuSpec& gpu = board.gpu();
  PowerCauses causes;
  causes.reported_w =
      cost::reported_over(estimate.power, waiting_power(gpu, board.profile()), gpu.tdp).in_w();
  return causes;
}

Watts active_power(const PowerCauses& causes, const GpuSpec& gpu, const CostProfile& profile) {
  const PowerParameters& p = profile.power;
  return Watts(causes.reported_w +
               kPico * (p.clocked_pj * causes.lanes + p.flop_pj * causes.flops +
                        p.tensor_flop_pj * causes.tensor_flops +
                        (cost::has_gddr(gpu) ? p.gddr_pj_per_byte * cost::gddr_energy(gpu, profile)
                                             : p.hbm_pj_per_byte) *
                            causes.dram_bytes));
}

Watts active_power(const Kernel& kernel, const cost::KernelEstimate& estimate, const GpuSpec& gpu,
                   const CostProfile& profile) {
  if (!(estimate.duration > Seconds(0))) return {};
  if (estimate.power > Watts())
    return cost::reported_over(estimate.power, waiting_power(gpu, profile), gpu.tdp);
  return active_power(power_causes(kernel, estimate.duration, estimate.sm_share, gpu, profile), gpu,
                      profile);
}

Watts limited_power(Watts demand, Watts limit) {
  const double ratio = demand / limit;
  const double cube = ratio * ratio * ratio;
  return demand / std::cbrt(std::sqrt(1.0 + cube * cube));
}

}  // namespace tracecast
