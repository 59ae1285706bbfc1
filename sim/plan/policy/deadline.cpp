#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Earliest deadline first, preemptive; jobs without one come last, in the order of arrival (Liu
/// and Layland, "Scheduling algorithms for multiprogramming in a hard-real-time environment", J.
/// ACM 20(1), 1973).
class EarliestDeadline final : public Ranking {
 public:
  void order(const Progress& progress, std::vector<JobId>& jobs) override {
    keys_.resize(progress.mix().jobs.size());
    for (const JobId job : jobs) {
      const auto& deadline = progress.mix().jobs[job.index].deadline;
      keys_[job.index] = static_cast<double>(deadline.value_or(Time::most()).count());
    }
    sort_by(keys_, jobs);
  }

 private:
  std::vector<double> keys_;
};

}  // namespace

std::unique_ptr<Ranking> make_deadline(const PolicyOptions&) {
  return std::make_unique<EarliestDeadline>();
}

}  // namespace tracecast::plan
