#pragma once
#include <optional>
#include <vector>

#include "calibrate/device/experiment.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"

namespace tracecast::calibrate {

/// The experiment as kernels, one candidate per op and for a convolution the one of its algorithm.
/// Empty: copies, launches and collectives, which are no kernels; an algorithm that this shape has
/// not. Throws InputError on a shape that cannot be.
[[nodiscard]] std::vector<LoweredOp> lower_experiment(const Experiment& experiment,
                                                      const GpuSpec& gpu,
                                                      double cudnn_version = 99);

/// What the cost model expects: kernels' own time, no host.
struct Expectation {
  Seconds time{};
  double log_sd = 0;  ///< of ln(measured / expected): of its longest kernel
};
/// Nothing for what has no kernels.
[[nodiscard]] std::optional<Expectation> expect(const Experiment& experiment, const GpuSpec& gpu,
                                                const CostProfile& profile,
                                                double cudnn_version = 99);
[[nodiscard]] std::optional<Seconds> expected_time(const Experiment& experiment, const GpuSpec& gpu,
                                                   const CostProfile& profile,
                                                   double cudnn_version = 99);

/// Number formats that the GPU computes in: fp32 always; fp16 from compute capability 5.3 on
/// (without 6.1's crippled rate: 6.0, 6.2, 7.0 on); tf32 and bf16 from 8.0; int8 from 6.1
/// (not 6.2). Source: CUDA C++ Programming Guide, arithmetic throughput by compute capability.
[[nodiscard]] std::vector<Precision> precisions_of(int compute_capability);

}  // namespace tracecast::calibrate
