#include "sim/job/roofline.hpp"

#include <algorithm>

namespace tracecast {

Roofline make_roofline(const ResolvedJob& job, const Prediction& prediction) {
  Roofline roofline;
  roofline.bandwidth = job.gpu.effective_bandwidth();
  const auto add_roof = [&](const Kernel& kernel) {
    const auto is_same = [&](const Roof& roof) {
      return roof.precision == kernel.math && roof.unit == kernel.unit;
    };
    if (std::any_of(roofline.roofs.begin(), roofline.roofs.end(), is_same)) return;
    const auto peak = job.gpu.find_peak(kernel.math, kernel.unit);
    if (peak) roofline.roofs.push_back({kernel.math, kernel.unit, *peak});
  };
  const PricedStep& priced = prediction.priced;
  for (std::size_t i = 0; i < priced.choices.size(); ++i) {
    const cost::PricedCandidate& choice = priced.choices[i];
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      const cost::KernelEstimate& estimate = choice.estimates[k];
      const bool has_place =
          kernel.flops > Flops(0) && kernel.bytes() > Bytes(0) && estimate.duration > Seconds(0);
      if (!has_place) {
        ++roofline.without_arithmetic;
        continue;
      }
      roofline.kernels.push_back({.op = priced.lowered->ops[i].op,
                                  .kernel = &kernel,
                                  .time = estimate.duration,
                                  .bound = estimate.bound,
                                  .basis = estimate.basis,
                                  .log_sd = estimate.log_sd});
      add_roof(kernel);
    }
  }
  std::stable_sort(roofline.roofs.begin(), roofline.roofs.end(),
                   [](const Roof& a, const Roof& b) { return b.peak < a.peak; });
  return roofline;
}

}  // namespace tracecast
