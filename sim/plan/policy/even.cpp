#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Spreads jobs evenly, and those of every kind: each is dealt to a type of GPU, in rounds in which
/// every GPU of the fleet gets one, and within a round to the type of which its kind has had the
/// least for its share; it waits for GPUs of that type; no preemption. What studies compare an
/// assignment by speed-up with (S-FJ in tools/studies).
class Even final : public Ranking {
 public:
  bool preempts() const override { return false; }
  bool chooses_by_type() const override { return true; }

  void arrived(const Progress& progress, JobId job) override {
    const JobMix& mix = progress.mix();
    const std::vector<GpuType>& types = progress.fleet().types;
    type_of_.resize(mix.jobs.size());
    dealt_.resize(types.size());
    of_kind_.resize(mix.kinds.size(), std::vector<int>(types.size()));
    const int gpus = mix.gpus_of(job);
    std::vector<int>& of_kind = of_kind_[mix.jobs[job.index].kind.index];
    std::optional<std::uint32_t> best;
    std::int64_t best_round = 0;
    double best_has = 0;
    for (std::uint32_t t = 0; t < types.size(); ++t) {
      if (progress.rate(job, {t}) <= 0 || types[t].gpus < gpus) continue;
      const std::int64_t round = dealt_[t] / types[t].gpus;
      // Highest averages with odd divisors (Webster, Sainte-Lague): the share of each type follows
      // its GPUs.
      const double has = (of_kind[t] + 0.5) / types[t].gpus;
      if (best && (round > best_round || (round == best_round && has >= best_has))) continue;
      best = t;
      best_round = round;
      best_has = has;
    }
    TRACECAST_CHECK(best.has_value(), "a job of the mix can run somewhere");
    type_of_[job.index] = {*best};
    dealt_[*best] += gpus;
    ++of_kind[*best];
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
  std::vector<std::int64_t> dealt_;        ///< by type: GPUs of all jobs so far
  std::vector<std::vector<int>> of_kind_;  ///< by kind and type: jobs so far
  std::vector<TypeId> type_of_;            ///< by job
};

}  // namespace

std::unique_ptr<Ranking> make_even(const PolicyOptions&) { return std::make_unique<Even>(); }

}  // namespace tracecast::plan
