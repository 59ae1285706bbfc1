#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Least remaining time first, preemptive, equals as sort_by() has them: least mean completion time
/// on one machine (Schrage, "A proof of the optimality of the shortest remaining processing time
/// discipline", Operations Research 16(3), 1968).
class ShortestRemainingTime final : public Ranking {
 public:
  void order(const Progress& progress, std::vector<JobId>& jobs) override {
    keys_.resize(progress.mix().jobs.size());
    for (const JobId job : jobs) keys_[job.index] = key_of(progress.remaining(job));
    sort_by(keys_, jobs);
  }

 private:
  std::vector<double> keys_;
};

}  // namespace

std::unique_ptr<Ranking> make_srtf(const PolicyOptions&) {
  return std::make_unique<ShortestRemainingTime>();
}

}  // namespace tracecast::plan
