#include "sim/plan/shared_rates.hpp"

namespace tracecast::plan {

SharedRates::SharedRates(const JobMix& mix, std::size_t types)
    : kinds_(mix.kinds.size()), types_(types) {
  if (mix.shared.empty()) return;
  rates_.resize(kinds_ * kinds_ * types_);
  for (const SharedRate& pair : mix.shared) {
    // Who stands still beside another does not run with it.
    if (pair.rate_a <= 0 || pair.rate_b <= 0) continue;
    rates_[(pair.a.index * kinds_ + pair.b.index) * types_ + pair.type.index] = pair.rate_a;
    rates_[(pair.b.index * kinds_ + pair.a.index) * types_ + pair.type.index] = pair.rate_b;
  }
}

}  // namespace tracecast::plan
