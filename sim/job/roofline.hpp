#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/cost/price.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// A kernel of a step against the roofs of its GPU.
struct RooflineKernel {
  OpId op;                         ///< of the step's graph
  const Kernel* kernel = nullptr;  ///< lives as long as the prediction
  Seconds time{};
  cost::Bound bound{};
  cost::Basis basis{};
  double log_sd = 0;  ///< standard deviation of ln(measured / predicted) of `time`
};
/// A roof: what a format and unit could do at the boost clock.
struct Roof {
  Precision precision{};
  MathUnit unit{};
  FlopsPerSecond peak{};
};
/// Every kernel that does arithmetic and moves data, in order, and the roofs of the formats that
/// they use.
///   attainable = min(peak, intensity * bandwidth),   intensity = flops / compulsory bytes
/// Source: Williams et al., CACM 52(4), 2009. Bytes are those that must move; caches may save some
/// of them, so that a kernel can lie above the slanted roof.
struct Roofline {
  std::vector<RooflineKernel> kernels;
  std::size_t without_arithmetic = 0;  ///< kernels left out: they only move data
  std::vector<Roof> roofs;             ///< highest first
  BytesPerSecond bandwidth{};          ///< of device memory, in theory
};
[[nodiscard]] Roofline make_roofline(const ResolvedJob& job, const Prediction& prediction);

}  // namespace tracecast
