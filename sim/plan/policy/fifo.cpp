#include <algorithm>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

#include "sim/plan/policy/policies.hpp"
#include "sim/plan/published_random.hpp"

namespace tracecast::plan {
namespace {

/// First come first served, no preemption, the first in line holds up the others; blind to speed
/// (`fifo`) or where each runs fastest (`fifo_perf`). The words are Gavel's (Narayanan et al., OSDI
/// 2020, section 7.1).
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

/// Places a queue of jobs, in the order of arrival, on types with room.
/// Who fits no type holds up those behind; who can run on none of the types that have room is
/// passed over.
class Places {
 public:
  explicit Places(const Progress& progress) : progress_(progress) {
    for (const GpuType& type : progress.fleet().types) free_.push_back(type.gpus);
  }
  void hold(JobId job, TypeId type) { free_[type.index] -= progress_.mix().gpus_of(job); }
  [[nodiscard]] int& free(TypeId type) { return free_[type.index]; }
  [[nodiscard]] bool has_room(JobId job, TypeId type) const {
    return free_[type.index] >= progress_.mix().gpus_of(job);
  }
  [[nodiscard]] bool runs(JobId job, TypeId type) const { return progress_.rate(job, type) > 0; }
  [[nodiscard]] std::vector<TypeId> types_with_room(JobId job) const {
    std::vector<TypeId> types;
    for (std::uint32_t t = 0; t < free_.size(); ++t) {
      if (has_room(job, {t})) types.push_back({t});
    }
    return types;
  }

 private:
  const Progress& progress_;
  std::vector<int> free_;
};

/// `fifo_perf` where a policy is asked for shares: everybody is placed anew, each where it runs
/// fastest among the types with room for it, and has a whole share there. Source: Gavel's
/// scheduler/policies/fifo.py.
class FastestShares final : public Sharing {
 public:
  bool idles() const override { return true; }
  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    Places places(progress);
    Shares shares(jobs.size(), progress.fleet().types.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const std::vector<TypeId> types = places.types_with_room(jobs[j]);
      if (types.empty()) break;
      const TypeId best = *std::max_element(types.begin(), types.end(), [&](TypeId a, TypeId b) {
        return progress.rate(jobs[j], a) < progress.rate(jobs[j], b);
      });
      if (!places.runs(jobs[j], best)) continue;
      shares.at(j, best) = 1;
      places.hold(jobs[j], best);
    }
    return shares;
  }
};

/// `fifo` where a policy is asked for shares: a job has a whole share of the first type in the
/// fleet's order that has room for it, and keeps that to its end.
///
/// With `overcommits` the slips of the published code are kept, since its results depend on them
/// (Gavel's scheduler/policies/fifo.py, `base`): a job goes to the first type that is not used up,
/// even if it does not fit there, as long as it fits some type; when a type is used up it is not
/// that one but one drawn among those with room that is taken off; and the first in line takes over
/// the type of a job that ended as far as the jobs that came before that one leave room. Who has a
/// share of a type that is overcommitted takes turns there.
class FirstShares final : public Sharing {
 public:
  FirstShares(bool overcommits, std::uint32_t seed) : overcommits_(overcommits), random_(seed) {}
  bool is_blind() const override { return true; }
  bool idles() const override { return true; }

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    Places places(progress);
    place_.resize(progress.mix().jobs.size());
    std::deque<JobId> queue;
    for (const JobId job : jobs) {
      if (!place_[job.index]) queue.push_back(job);
    }
    const std::vector<JobId> before = std::exchange(placed_, {});
    if (overcommits_) {
      for (const JobId job : before) settle(progress, job, queue, places);
      place_overcommitted(progress, queue, places);
    } else {
      for (const JobId job : before) {
        if (!progress.history(job).end) put(job, *place_[job.index], places);
      }
      place_where_room(queue, places);
    }
    std::sort(placed_.begin(), placed_.end());
    Shares shares(jobs.size(), progress.fleet().types.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (const auto type = place_[jobs[j].index]) shares.at(j, *type) = 1;
    }
    return shares;
  }

 private:
  void put(JobId job, TypeId type, Places& places) {
    place_[job.index] = type;
    placed_.push_back(job);
    places.hold(job, type);
  }
  void place_where_room(const std::deque<JobId>& queue, Places& places) {
    for (const JobId job : queue) {
      const std::vector<TypeId> types = places.types_with_room(job);
      if (types.empty()) return;
      const auto type =
          std::find_if(types.begin(), types.end(), [&](TypeId t) { return places.runs(job, t); });
      if (type != types.end()) put(job, *type, places);
    }
  }
  /// A job placed before keeps its type, or leaves it to the first in line.
  void settle(const Progress& progress, JobId job, std::deque<JobId>& queue, Places& places) {
    const TypeId type = *place_[job.index];
    if (!progress.history(job).end) return put(job, type, places);
    if (queue.empty()) return;
    const JobId next = queue.front();
    if (!places.has_room(next, type) || !places.runs(next, type)) return;
    queue.pop_front();
    put(next, type, places);
  }
  void place_overcommitted(const Progress& progress, std::deque<JobId>& queue, Places& places) {
    std::vector<TypeId> open;
    for (std::uint32_t t = 0; t < progress.fleet().types.size(); ++t) {
      if (places.free({t}) > 0) open.push_back({t});
    }
    for (; !queue.empty() && !open.empty(); queue.pop_front()) {
      const JobId job = queue.front();
      std::vector<TypeId> with_room;
      std::copy_if(open.begin(), open.end(), std::back_inserter(with_room),
                   [&](TypeId t) { return places.has_room(job, t); });
      if (with_room.empty()) return;
      // The published list has the fleet's order backwards.
      // The published list has the fleet's order backwards.
      const TypeId drawn = with_room[with_room.size() - 1 - random_.below(with_room.size())];
      const TypeId type = open.front();
      if (!places.runs(job, type)) continue;
      put(job, type, places);
      if (places.free(type) == 0) std::erase(open, drawn);
    }
  }

  bool overcommits_;
  PublishedRandom random_;
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

std::unique_ptr<Sharing> make_fifo_shares(const PolicyOptions& options) {
  return std::make_unique<FirstShares>(options.first_come_overcommits, options.seed);
}
std::unique_ptr<Sharing> make_fifo_perf_shares(const PolicyOptions&) {
  return std::make_unique<FastestShares>();
}

}  // namespace tracecast::plan
