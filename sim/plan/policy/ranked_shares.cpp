#include "sim/plan/policy/ranked_shares.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace tracecast::plan {
namespace {

class RankedShares final : public Sharing {
 public:
  explicit RankedShares(std::unique_ptr<Ranking> ranking) : ranking_(std::move(ranking)) {}
  bool idles() const override { return true; }
  bool is_asked_every_round() const override { return true; }

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    place_.resize(progress.mix().jobs.size());
    ranking_->decided(progress);  // who ran in the last round
    forget_ended(progress);
    for (const JobId job : jobs) {
      if (known_ > job.index) continue;
      known_ = job.index + 1;
      ranking_->arrived(progress, job);
      order_.push_back(job);
    }
    ranking_->order(progress, order_);
    if (ranking_->resizes()) return granted(progress, jobs);
    std::vector<int> free;
    for (const GpuType& type : progress.fleet().types) free.push_back(type.gpus);
    if (ranking_->preempts()) {
      for (const JobId job : order_) place_[job.index].reset();
    }
    for (const JobId job : order_) {
      if (place_[job.index]) free[place_[job.index]->index] -= progress.mix().gpus_of(job);
    }
    for (const JobId job : order_) {
      if (place_[job.index]) continue;
      place_[job.index] = choose(progress, job, free);
      if (place_[job.index])
        free[place_[job.index]->index] -= progress.mix().gpus_of(job);
      else if (ranking_->blocks())
        break;
    }
    Shares shares(jobs.size(), free.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (const auto type = place_[jobs[j].index]) shares.at(j, *type) = 1;
    }
    return shares;
  }

 private:
  /// All the time on what the policy grants.
  [[nodiscard]] Shares granted(const Progress& progress, std::span<const JobId> jobs) const {
    const std::size_t types = progress.fleet().types.size();
    Shares shares(jobs.size(), types);
    for (std::uint32_t j = 0; j < jobs.size(); ++j) {
      const std::optional<Grant> grant = ranking_->granted(jobs[j]);
      if (!grant) continue;
      if (grant->gpus == progress.mix().gpus_of(jobs[j])) {
        shares.at(j, grant->type) = 1;
        continue;
      }
      std::vector<double> of_type(types);
      of_type[grant->type.index] = 1;
      shares.sized.push_back({j, grant->gpus, std::move(of_type)});
    }
    return shares;
  }
  void forget_ended(const Progress& progress) {
    const std::vector<JobId> before = order_;
    for (const JobId job : before) {
      if (!progress.history(job).end) continue;
      ranking_->ended(progress, job);
      std::erase(order_, job);
    }
  }
  [[nodiscard]] std::optional<TypeId> choose(const Progress& progress, JobId job,
                                             const std::vector<int>& free) const {
    std::optional<TypeId> best;
    for (std::uint32_t t = 0; t < free.size(); ++t) {
      const double rate = progress.rate(job, {t});
      if (free[t] < progress.mix().gpus_of(job) || rate <= 0 ||
          ranking_->refuses(progress, job, {t}))
        continue;
      const bool is_better = !best || (ranking_->type_choice() == TypeChoice::Fastest &&
                                       rate > progress.rate(job, *best));
      if (is_better) best = TypeId{t};
    }
    return best;
  }

  std::unique_ptr<Ranking> ranking_;
  std::vector<JobId> order_;                  ///< all that are not done, as the policy left them
  std::uint32_t known_ = 0;                   ///< jobs before this one have been announced
  std::vector<std::optional<TypeId>> place_;  ///< by job
};

}  // namespace

std::unique_ptr<Sharing> make_ranked_shares(std::unique_ptr<Ranking> ranking) {
  return std::make_unique<RankedShares>(std::move(ranking));
}

}  // namespace tracecast::plan
