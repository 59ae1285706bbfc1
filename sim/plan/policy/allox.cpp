#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "sim/plan/assignment.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// AlloX (Le, Sun, Chowdhury, Liu, EuroSys 2020): least mean completion time by matching. A job that is k-th from the end
/// of a GPU's queue adds k times its time there to the sum of completion times, so the least sum is an assignment of jobs
/// to (GPU, k). The first in each queue gets the GPU and keeps it. Only the `reach` part that arrived first is matched, but
/// as many as there are free GPUs. A gang counts as a job on one GPU whose share is 1 / GPUs and is matched anew each time,
/// as Shockwave's scheduler/policies/allox.py has it; Gavel's knows no gangs.
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
  void place_first(const Progress& progress, const std::vector<JobId>& jobs,
                   const std::vector<TypeId>& free) {
    constexpr double kNever = 1e15;  // seconds: where it cannot run
    const std::size_t columns = free.size() * jobs.size();
    std::vector<double> cost;
    cost.reserve(jobs.size() * columns);
    for (const JobId job : jobs) {
      for (std::size_t level = 1; level <= jobs.size(); ++level) {
        for (const TypeId type : free) {
          const double rate = progress.rate(job, type);
          cost.push_back(rate > 0 ? static_cast<double>(level) * (progress.left_steps(job) / rate)
                                  : kNever);
        }
      }
    }
    const std::vector<std::size_t> chosen = assign(cost, jobs.size(), columns);
    std::vector<std::optional<std::size_t>> first(free.size());  // of each GPU's queue
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      std::optional<std::size_t>& other = first[chosen[j] % free.size()];
      if (!other || chosen[j] > chosen[*other]) other = j;
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
