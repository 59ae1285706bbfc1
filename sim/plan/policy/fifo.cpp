#include <algorithm>
#include <optional>
#include <utility>

#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// First come first served, no preemption, the first in line holds up the others; blind to speed (`fifo`) or where each
/// runs fastest (`fifo_perf`). The words are Gavel's (Narayanan et al., OSDI 2020, section 7.1).
class FirstComeFirstServed final : public Ranking {
 public:
  explicit FirstComeFirstServed(TypeChoice choice) : choice_(choice) {}
  bool preempts() const override { return false; }
  bool blocks() const override { return true; }
  TypeChoice type_choice() const override { return choice_; }
  void order(const Progress&, std::vector<JobId>&) override {}  // as they came

 private:
  TypeChoice choice_;
};

/// The same where a policy is asked for shares: who runs has a whole share of one type.
/// Blind, a job keeps its type to its end; the first in line takes the type of a job that has ended, and otherwise the
/// first type in the fleet's order that has room. By speed, everybody is placed anew in the order of arrival, each where it
/// runs fastest among the types with room for it. Who fits no type holds up those behind; who could run on none of the
/// types that have room is passed over. Source: Gavel's scheduler/policies/fifo.py.
class FirstComeFirstServedShares final : public Sharing {
 public:
  explicit FirstComeFirstServedShares(TypeChoice choice) : choice_(choice) {}
  bool is_blind() const override { return choice_ == TypeChoice::First; }
  bool idles() const override { return true; }

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    std::vector<int> free;
    for (const GpuType& type : progress.fleet().types) free.push_back(type.gpus);
    place_.resize(progress.mix().jobs.size());
    if (choice_ == TypeChoice::Fastest) placed_.clear();
    for (const JobId job : placed_) {
      if (!progress.history(job).end) free[place_[job.index]->index] -= progress.mix().gpus_of(job);
    }
    std::vector<JobId> waiting;
    for (const JobId job : jobs) {
      if (choice_ == TypeChoice::Fastest) place_[job.index].reset();
      if (!place_[job.index]) waiting.push_back(job);
    }
    std::size_t next = take_over(progress, waiting, free);
    for (; next < waiting.size(); ++next) {
      if (!fits_any(progress, waiting[next], free)) break;
      if (const auto type = choose(progress, waiting[next], free)) put(progress, waiting[next], *type, free);
    }
    Shares shares(jobs.size(), free.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (const auto type = place_[jobs[j].index]) shares.at(j, *type) = 1;
    }
    return shares;
  }

 private:
  /// Jobs that ended leave their types to the first in line; how many of `waiting` were placed.
  std::size_t take_over(const Progress& progress, const std::vector<JobId>& waiting,
                        std::vector<int>& free) {
    std::size_t next = 0;
    const std::vector<JobId> before = std::move(placed_);
    placed_.clear();
    for (const JobId job : before) {
      if (!progress.history(job).end) placed_.push_back(job);
    }
    for (const JobId job : before) {
      if (!progress.history(job).end || next == waiting.size()) continue;
      const TypeId type = *place_[job.index];
      if (progress.mix().gpus_of(waiting[next]) > free[type.index] ||
          progress.rate(waiting[next], type) <= 0) {
        continue;
      }
      put(progress, waiting[next++], type, free);
    }
    return next;
  }
  void put(const Progress& progress, JobId job, TypeId type, std::vector<int>& free) {
    place_[job.index] = type;
    placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), job), job);
    free[type.index] -= progress.mix().gpus_of(job);
  }
  [[nodiscard]] static bool fits_any(const Progress& progress, JobId job, const std::vector<int>& free) {
    return *std::max_element(free.begin(), free.end()) >= progress.mix().gpus_of(job);
  }
  [[nodiscard]] std::optional<TypeId> choose(const Progress& progress, JobId job,
                                             const std::vector<int>& free) const {
    std::optional<TypeId> best;
    for (std::uint32_t t = 0; t < free.size(); ++t) {
      const double rate = progress.rate(job, {t});
      if (free[t] < progress.mix().gpus_of(job) || rate <= 0) continue;
      if (!best || (choice_ == TypeChoice::Fastest && rate > progress.rate(job, *best))) best = TypeId{t};
    }
    return best;
  }

  TypeChoice choice_;
  std::vector<std::optional<TypeId>> place_;  ///< by job
  std::vector<JobId> placed_;                 ///< in the order of arrival
};

}  // namespace

std::unique_ptr<Ranking> make_fifo(const PolicyOptions&) {
  return std::make_unique<FirstComeFirstServed>(TypeChoice::First);
}
std::unique_ptr<Ranking> make_fifo_perf(const PolicyOptions&) {
  return std::make_unique<FirstComeFirstServed>(TypeChoice::Fastest);
}

std::unique_ptr<Sharing> make_fifo_shares(const PolicyOptions&) {
  return std::make_unique<FirstComeFirstServedShares>(TypeChoice::First);
}
std::unique_ptr<Sharing> make_fifo_perf_shares(const PolicyOptions&) {
  return std::make_unique<FirstComeFirstServedShares>(TypeChoice::Fastest);
}

}  // namespace tracecast::plan
