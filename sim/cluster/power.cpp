#include "sim/cluster/power.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/cost/sustained_clock.hpp"

namespace tracecast {
namespace {

constexpr double kPico = 1e-12;
constexpr double kReferenceNode_nm = 16;

bool has_gddr(const GpuSpec& gpu) { return gpu.memory_type < MemoryType::Hbm2; }

/// Operations a second that the arithmetic lanes could do.
double lane_rate(const GpuSpec& gpu) {
  const int lanes = gpu.architecture >= Architecture::Volta
                        ? std::max(gpu.fp32_lanes_per_sm, 32 * gpu.warp_schedulers_per_sm)
                        : gpu.fp32_lanes_per_sm;
  return 2.0 * gpu.sm_count * lanes * cost::default_clock(gpu).in_si();
}

double joules_per_operation(const Kernel& kernel, const PowerParameters& p) {
  const double width = element_size(kernel.math).in_bytes();
  return kPico * (kernel.unit == MathUnit::TensorCore ? p.tensor_flop_pj * width / 2.0
                                                      : p.flop_pj * width / 4.0);
}

}  // namespace

Watts awake_power(const GpuSpec& gpu, const CostProfile& profile) {
  const double clocked =
      has_gddr(gpu) ? kPico * profile.power.gddr_awake_pj_per_byte * gpu.dram_bandwidth.in_si()
                    : 0.0;
  return min(gpu.idle_power + Watts(clocked), gpu.tdp);
}

Watts kernel_power(const Kernel& kernel, Seconds duration, const GpuSpec& gpu,
                   const CostProfile& profile) {
  TRACECAST_CHECK(duration > Seconds(0), "a kernel takes time");
  const PowerParameters& p = profile.power;
  const double node = std::pow(gpu.process_nm / kReferenceNode_nm, p.node_exponent);
  const double flops_per_s = kernel.flops.in_flop() / duration.in_s();
  const double bytes_per_s =
      std::min(kernel.bytes().in_bytes() / duration.in_s(), gpu.dram_bandwidth.in_si());
  const double arithmetic = node * (kPico * p.clocked_pj * lane_rate(gpu) +
                                    joules_per_operation(kernel, p) * flops_per_s);
  const double memory =
      kPico * (has_gddr(gpu) ? p.gddr_pj_per_byte : p.hbm_pj_per_byte) * bytes_per_s;
  return min(awake_power(gpu, profile) + Watts(arithmetic + memory), gpu.tdp);
}

}  // namespace tracecast
