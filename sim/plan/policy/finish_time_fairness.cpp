#include <algorithm>
#include <utility>

#include "sim/plan/fair_program.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Finish-time fairness (Mahajan et al., "Themis", NSDI 2020): the largest of all jobs' ratios of
/// the time they will have taken to the time they would take with an equal share of the fleet from
/// the start is as small as it can be, as Gavel states it (OSDI 2020, section 4.2):
///   (since arrival + left / sum_t rate_t x_t) / (with equal shares so far + left / rate with an
///   equal share).
/// An equal share among m jobs is capacity_t / m / GPUs of each type, no more than all the time.
/// Blind: every GPU type counts as the fleet's first.
class FinishTimeFairness final : public Sharing {
 public:
  explicit FinishTimeFairness(bool is_blind) : is_blind_(is_blind) {}
  bool is_blind() const override { return is_blind_; }

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    const std::size_t types = progress.fleet().types.size();
    apart_.resize(progress.mix().jobs.size());
    FairProgram program;
    program.goal = FairGoal::LeastFinishRatio;
    for (const GpuType& type : progress.fleet().types) program.capacity.push_back(type.gpus);
    for (const JobId job : jobs) program.rows.push_back(row(progress, job, jobs.size()));
    const FairShares fair = solve(program);
    Shares shares(jobs.size(), types);
    std::copy(fair.x.begin(), fair.x.end(), shares.alone.begin());
    return shares;
  }

 private:
  /// What a job would have reached with an equal share all along.
  struct Apart {
    bool is_known = false;
    double time_s = 0, rate = 0, left = 0;
  };

  FairRow row(const Progress& progress, JobId job, std::size_t num_jobs) {
    const JobKind& kind = progress.mix().kind_of(job);
    FairRow row;
    row.gpus = kind.gpus;
    row.work = progress.expected_left(job);
    row.elapsed = (progress.now() - progress.mix().jobs[job.index].submit).in_seconds().in_s();
    const double first = reference_rate(progress, job);
    double share = 0, equal = 0;
    for (std::uint32_t t = 0; t < kind.rates.size(); ++t) {
      const double rate = is_blind_ && kind.rates[t] > 0 ? first : progress.rate(job, {t});
      const double part =
          progress.fleet().types[t].gpus / static_cast<double>(num_jobs) / kind.gpus;
      row.rates.push_back(rate);
      share += part;
      equal += part * rate;
    }
    equal /= std::max(share, 1.0);
    Apart& apart = apart_[job.index];
    if (apart.is_known) apart.time_s += (apart.left - row.work) / apart.rate;
    apart.is_known = true;
    apart.rate = equal;
    apart.left = row.work;
    row.reference = apart.time_s + row.work / equal;
    return row;
  }
  /// On the first type where it can run.
  static double reference_rate(const Progress& progress, JobId job) {
    for (std::uint32_t t = 0; t < progress.fleet().types.size(); ++t) {
      if (progress.rate(job, {t}) > 0) return progress.rate(job, {t});
    }
    return 0;
  }

  bool is_blind_;
  std::vector<Apart> apart_;  ///< by job
};

}  // namespace

std::unique_ptr<Sharing> make_finish_time_fairness(const PolicyOptions&) {
  return std::make_unique<FinishTimeFairness>(true);
}
std::unique_ptr<Sharing> make_finish_time_fairness_perf(const PolicyOptions&) {
  return std::make_unique<FinishTimeFairness>(false);
}

}  // namespace tracecast::plan
