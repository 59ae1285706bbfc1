#include "sim/cost/chain.hpp"

#include <algorithm>

#include "sim/cost/issue.hpp"
#include "sim/cost/product.hpp"

namespace tracecast::cost {
namespace {

constexpr double kWaitCycles = 2000, kChainsPerSm = 4;

}  // namespace

Roofs estimate_chain(const Kernel& kernel, const ChainWork& work, const SustainedGpu& machine,
                     const GpuSpec& gpu, const CostProfile& profile) {
  const double efficiency = kernel.unit == MathUnit::TensorCore ? product_efficiency(gpu, profile)
                                                                : library_efficiency(gpu, profile);
  const double sms = machine.sm_count;
  const double rate = machine.arithmetic.in_si() * efficiency / sms;
  const double rounds = std::max(1.0, work.chains / (kChainsPerSm * sms));
  const double step = kWaitCycles / machine.clock.in_si() * rounds +
                      std::max(1.0, work.chains / sms) * work.flops_per_step / rate;
  const double share = std::min(1.0, work.chains / sms);
  return {.compute = Seconds(work.steps * step),
          .memory = kernel.bytes() / machine.stream,
          .starved = share < 1,
          .sm_share = share};
}

}  // namespace tracecast::cost
