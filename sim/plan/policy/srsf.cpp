#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Least remaining time x GPUs first, preemptive, equals as sort_by() has them: remaining service
/// (Gu et al., "Tiresias", NSDI 2019, section 3.2).
class ShortestRemainingService final : public Ranking {
 public:
  void order(const Progress& progress, std::vector<JobId>& jobs) override {
    keys_.resize(progress.mix().jobs.size());
    for (const JobId job : jobs)
      keys_[job.index] = key_of(progress.remaining(job) * progress.mix().gpus_of(job));
    sort_by(keys_, jobs);
  }

 private:
  std::vector<double> keys_;
};

}  // namespace

std::unique_ptr<Ranking> make_srsf(const PolicyOptions&) {
  return std::make_unique<ShortestRemainingService>();
}

}  // namespace tracecast::plan
