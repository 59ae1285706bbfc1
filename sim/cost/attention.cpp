#include "sim/cost/attention.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/issue.hpp"
#include "sim/cost/product.hpp"

namespace tracecast::cost {
namespace {

constexpr double kQueriesPerBlock = 128;
constexpr double kKeysPerTile = 64;
constexpr double kForwardInstructions = 6, kBackwardInstructions = 12;
constexpr double kSpecialUnitsPerSm = 16;
constexpr double kSplitProducts = 3;  ///< for one of 32-bit operands
constexpr double kSplitTile = 64;
/// Share of Hopper's tensor-core peak that instructions of the generation before reach.
constexpr double kOldInstructionsOnHopper = 0.62;

/// Of tiles that hold `count`, over it.
double whole_tiles(std::int64_t count) {
  const double exact = static_cast<double>(count);
  return std::ceil(exact / kSplitTile) * kSplitTile / exact;
}

}  // namespace

Roofs estimate_attention(const Kernel& kernel, const AttentionWork& work,
                         const SustainedGpu& machine, const GpuSpec& gpu,
                         const CostProfile& profile) {
  const AttentionAttributes& a = work.shape;
  const double rows =
      static_cast<double>(a.batch) * static_cast<double>(a.heads) * static_cast<double>(a.queries);
  const bool on_tensor_cores = kernel.unit == MathUnit::TensorCore;
  const bool splits = on_tensor_cores && kernel.math == Precision::Tf32;
  // Tiles on the diagonal are computed whole, and of short sequences those at the edge.
  double scores = a.scores();
  if (a.causal) {
    scores += 0.5 * rows * std::min(kKeysPerTile, static_cast<double>(a.keys));
  } else if (splits) {
    scores *= whole_tiles(a.queries) * whole_tiles(a.keys);
  }
  const double efficiency = splits            ? profile.recorded.split_attention / kSplitProducts
                            : on_tensor_cores ? product_efficiency(gpu, profile)
                                              : library_efficiency(gpu, profile);
  const double issue =
      on_tensor_cores && gpu.architecture >= Architecture::Hopper ? kOldInstructionsOnHopper : 1.0;
  const double sms = machine.sm_count;
  const double products = work.products * scores *
                          static_cast<double>(a.width + a.width_of_values()) /
                          (machine.arithmetic.in_si() * efficiency * issue);
  const double instructions = work.products > 2 ? kBackwardInstructions : kForwardInstructions;
  const double cycles = instructions / gpu.fp32_lanes_per_sm + 1.0 / kSpecialUnitsPerSm;
  const double softmax = scores * cycles / (sms * machine.clock.in_si());
  const double blocks = rows / static_cast<double>(a.queries) *
                        std::ceil(static_cast<double>(a.queries) / kQueriesPerBlock);
  const double filled = std::min(1.0, blocks / sms);
  return {.compute = Seconds((products + softmax) / filled),
          .memory = kernel.bytes() / machine.stream,
          .starved = filled < 1,
          .sm_share = filled};
}

}  // namespace tracecast::cost
