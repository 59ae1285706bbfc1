#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/plan/assignment.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// AlloX (Le, Sun, Chowdhury, Liu, EuroSys 2020): jobs on one GPU, least mean completion time by matching. A job that is
/// k-th from the end of a GPU's queue adds k times its time there to the sum of completion times, so the least sum is an
/// assignment of jobs to (GPU, k). The first in each queue gets the GPU and keeps it.
class AlloX final : public Sharing {
 public:
  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    const std::size_t types = progress.fleet().types.size();
    place_.resize(progress.mix().jobs.size());
    std::vector<int> free;
    for (const GpuType& type : progress.fleet().types) free.push_back(type.gpus);
    std::vector<JobId> waiting;
    for (const JobId job : jobs) {
      if (place_[job.index])
        --free[place_[job.index]->index];
      else
        waiting.push_back(job);
    }
    place_first(progress, waiting, free);
    Shares shares(jobs.size(), types);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (const auto type = place_[jobs[j].index]) shares.at(j, *type) = 1;
    }
    return shares;
  }

 private:
  struct Slot {
    TypeId type;
    int gpu = 0;       ///< of those that are free
    int from_end = 1;  ///< of its queue
  };

  void place_first(const Progress& progress, const std::vector<JobId>& jobs,
                   const std::vector<int>& free) {
    if (jobs.empty() || *std::max_element(free.begin(), free.end()) <= 0) return;
    // Positions near the end are cheaper: of each type no more than there are jobs can be needed.
    std::vector<Slot> slots;
    for (std::uint32_t t = 0; t < free.size(); ++t) {
      for (std::size_t i = 0; free[t] > 0 && i < jobs.size(); ++i) {
        slots.push_back({{t}, static_cast<int>(i) % free[t], static_cast<int>(i) / free[t] + 1});
      }
    }
    std::vector<double> cost;
    constexpr double kNever = 1e15;  // seconds: where it cannot run
    for (const JobId job : jobs) {
      for (const Slot& slot : slots) {
        const double rate = progress.rate(job, slot.type);
        cost.push_back(rate > 0 ? slot.from_end * (progress.left_steps(job) / rate) : kNever);
      }
    }
    const std::vector<std::size_t> chosen = assign(cost, jobs.size(), slots.size());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const Slot& slot = slots[chosen[j]];
      const bool is_first = std::none_of(chosen.begin(), chosen.end(), [&](std::size_t other) {
        return slots[other].type == slot.type && slots[other].gpu == slot.gpu &&
               slots[other].from_end > slot.from_end;
      });
      if (is_first && progress.rate(jobs[j], slot.type) > 0) place_[jobs[j].index] = slot.type;
    }
  }

  std::vector<std::optional<TypeId>> place_;  ///< by job
};

}  // namespace

std::unique_ptr<Sharing> make_allox(const PolicyOptions&) { return std::make_unique<AlloX>(); }

}  // namespace tracecast::plan
