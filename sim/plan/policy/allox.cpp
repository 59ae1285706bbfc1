#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "sim/plan/assignment.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// AlloX (Le, Sun, Chowdhury, Liu, EuroSys 2020): least mean completion time by matching. A job
/// that is k-th from the end of a GPU's queue adds k times its time there to the sum of completion
/// times, so the least sum is an assignment of jobs to (GPU, k). The first in each queue gets the
/// GPU and keeps it. Only the `reach` part that arrived first is matched, but as many as there are
/// free GPUs. A gang counts as a job on one GPU whose share is 1 / GPUs and is matched anew each
/// time, as Shockwave's scheduler/policies/allox.py has it; Gavel's knows no gangs.
class AlloX final : public Sharing {
 public:
  explicit AlloX(double reach) : reach_(reach) {}

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    const std::size_t types = progress.fleet().types.size();
    place_.resize(progress.mix().jobs.size());
    // GPUs in the order of the published code, which has the fleet's types backwards.
    std::vector<TypeId> free;
    std::vector<int> left;
    for (const GpuType& type : progress.fleet().types) left.push_back(type.gpus);
    std::vector<JobId> waiting;
    for (const JobId job : jobs) {
      if (place_[job.index] && progress.mix().gpus_of(job) == 1)
        --left[place_[job.index]->index];
      else
        waiting.push_back(job);
    }
    for (std::size_t t = types; t-- > 0;)
      free.insert(free.end(), static_cast<std::size_t>(std::max(left[t], 0)),
                  TypeId{static_cast<std::uint32_t>(t)});
    const auto most = std::max(
        free.size(), static_cast<std::size_t>(reach_ * static_cast<double>(waiting.size())));
    if (waiting.size() > most) waiting.resize(most);
    if (!waiting.empty() && !free.empty()) place_first(progress, waiting, free);
    Shares shares(jobs.size(), types);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (const auto type = place_[jobs[j].index])
        shares.at(j, *type) = 1.0 / progress.mix().gpus_of(jobs[j]);
    }
    return shares;
  }

 private:
  /// The level-th from the end of a free GPU's queue.
  struct Slot {
    std::size_t gpu = 0, level = 0;
  };
  /// Every level of every GPU as the published code has it; of many, where that would be no end of
  /// columns, for each type only as many as all the jobs would fill: a queue longer than others
  /// like it is never better.
  static std::vector<Slot> slots_of(std::size_t jobs, const std::vector<TypeId>& free,
                                    std::size_t types) {
    constexpr std::size_t kMostCosts = 2'000'000;
    std::vector<std::size_t> levels(types, jobs);
    if (jobs * jobs * free.size() > kMostCosts) {
      std::vector<std::size_t> gpus(types);
      for (const TypeId type : free) ++gpus[type.index];
      for (std::size_t t = 0; t < types; ++t)
        levels[t] = gpus[t] > 0 ? (jobs + gpus[t] - 1) / gpus[t] : 0;
    }
    std::vector<Slot> slots;
    for (std::size_t level = 1; level <= jobs; ++level) {
      for (std::size_t gpu = 0; gpu < free.size(); ++gpu) {
        if (level <= levels[free[gpu].index]) slots.push_back({gpu, level});
      }
    }
    return slots;
  }

  void place_first(const Progress& progress, const std::vector<JobId>& jobs,
                   const std::vector<TypeId>& free) {
    constexpr double kNever = 1e15;  // seconds: where it cannot run
    const std::vector<Slot> slots = slots_of(jobs.size(), free, progress.fleet().types.size());
    std::vector<double> cost;
    cost.reserve(jobs.size() * slots.size());
    for (const JobId job : jobs) {
      // The same for all places of a job: it changes nothing but how sums are rounded, and so which
      // of equals is taken.
      const double since =
          (progress.now() - progress.mix().jobs[job.index].submit).in_seconds().in_s();
      const double left = progress.expected_left(job);
      for (const Slot& slot : slots) {
        const double rate = progress.rate(job, free[slot.gpu]);
        cost.push_back(rate > 0 ? static_cast<double>(slot.level) * (left / rate) + since : kNever);
      }
    }
    const std::vector<std::size_t> chosen = assign(cost, jobs.size(), slots.size());
    std::vector<std::optional<std::size_t>> first(free.size());  // of each GPU's queue
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const Slot& slot = slots[chosen[j]];
      std::optional<std::size_t>& other = first[slot.gpu];
      if (!other || slot.level > slots[chosen[*other]].level) other = j;
    }
    for (std::size_t gpu = 0; gpu < free.size(); ++gpu) {
      if (first[gpu] && progress.rate(jobs[*first[gpu]], free[gpu]) > 0)
        place_[jobs[*first[gpu]].index] = free[gpu];
    }
  }

  double reach_;
  std::vector<std::optional<TypeId>> place_;  ///< by job
};

}  // namespace

std::unique_ptr<Sharing> make_allox(const PolicyOptions& options) {
  return std::make_unique<AlloX>(options.allox_reach);
}

}  // namespace tracecast::plan
