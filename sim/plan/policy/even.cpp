#include <algorithm>

#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Spreads the jobs of every kind evenly: the n-th of its kind is dealt to the n-th GPU of the fleet, in turn, and waits for
/// GPUs of that type; no preemption. What studies compare an assignment by speed-up with (S-FJ in tools/studies).
class Even final : public Ranking {
 public:
  bool preempts() const override { return false; }
  bool chooses_by_type() const override { return true; }

  void arrived(const Progress& progress, JobId job) override {
    const JobMix& mix = progress.mix();
    type_of_.resize(mix.jobs.size());
    dealt_.resize(mix.kinds.size());
    int place = dealt_[mix.jobs[job.index].kind.index]++ % progress.fleet().total_gpus();
    const std::vector<GpuType>& types = progress.fleet().types;
    std::uint32_t type = 0;
    for (; place >= types[type].gpus; ++type) place -= types[type].gpus;
    // Where it cannot run there, the next type has it.
    for (std::size_t tries = 0; tries < types.size() && progress.rate(job, {type}) <= 0; ++tries)
      type = (type + 1) % static_cast<std::uint32_t>(types.size());
    type_of_[job.index] = {type};
  }
  void order(const Progress&, std::vector<JobId>&) override {}  // as they came
  std::optional<std::size_t> choose(const Progress&, const std::vector<JobId>& waiting,
                                    TypeId type) const override {
    const auto first = std::find_if(waiting.begin(), waiting.end(),
                                    [&](JobId job) { return type_of_[job.index] == type; });
    if (first == waiting.end()) return std::nullopt;
    return static_cast<std::size_t>(first - waiting.begin());
  }

 private:
  std::vector<int> dealt_;       ///< by kind
  std::vector<TypeId> type_of_;  ///< by job
};

}  // namespace

std::unique_ptr<Ranking> make_even(const PolicyOptions&) { return std::make_unique<Even>(); }

}  // namespace tracecast::plan
