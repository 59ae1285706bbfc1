#include <map>
#include <utility>

#include "sim/plan/policy/policies.hpp"
#include "sim/plan/self_dual_path.hpp"

namespace tracecast::plan {
namespace {

/// Max-min fairness over GPU types of different speed: the least of all jobs' throughputs, each
/// relative to what an equal share of the fleet would give it, times its GPUs and over its weight,
/// is as large as it can be (Narayanan et al., "Heterogeneity-aware cluster scheduling policies for
/// deep learning workloads", OSDI 2020, section 4.1). Blind: every GPU counts the same, which is
/// least attained service over the whole fleet.
class MaxMinFairness final : public Sharing {
 public:
  explicit MaxMinFairness(bool is_blind) : is_blind_(is_blind) {}
  bool is_blind() const override { return is_blind_; }

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    const JobMix& mix = progress.mix();
    const std::vector<GpuType>& types = progress.fleet().types;
    FairProgram program;
    for (const GpuType& type : types) program.capacity.push_back(type.gpus);
    // Jobs of one kind and weight are alike.
    std::map<std::pair<std::uint32_t, double>, std::size_t> rows;
    std::vector<std::size_t> row_of;
    for (const JobId job : jobs) {
      const QueuedJob& queued = mix.jobs[job.index];
      const auto [known, is_new] =
          rows.emplace(std::pair(queued.kind.index, queued.weight), program.rows.size());
      row_of.push_back(known->second);
      if (is_new)
        program.rows.push_back(row(progress, job));
      else
        program.rows[known->second].copies += 1;
    }
    const FairShares fair = follow_self_dual_path(program);
    Shares shares(jobs.size(), types.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      for (std::uint32_t t = 0; t < types.size(); ++t)
        shares.at(j, {t}) = fair.x[row_of[j] * types.size() + t];
    }
    return shares;
  }

 private:
  [[nodiscard]] FairRow row(const Progress& progress, JobId job) const {
    const JobKind& kind = progress.mix().kind_of(job);
    FairRow row;
    row.gpus = kind.gpus;
    row.weight = progress.mix().jobs[job.index].weight;
    double equal = 0;
    for (std::size_t t = 0; t < kind.rates.size(); ++t) {
      const double rate = is_blind_ && kind.rates[t] > 0 ? 1 : kind.rates[t];
      row.rates.push_back(rate * kind.gpus);
      equal += rate * progress.fleet().types[t].gpus;
    }
    equal /= progress.fleet().total_gpus();
    for (double& rate : row.rates) rate /= equal;
    return row;
  }

  bool is_blind_;
};

}  // namespace

std::unique_ptr<Sharing> make_max_min(const PolicyOptions&) {
  return std::make_unique<MaxMinFairness>(false);
}
std::unique_ptr<Sharing> make_max_min_blind(const PolicyOptions&) {
  return std::make_unique<MaxMinFairness>(true);
}

}  // namespace tracecast::plan
