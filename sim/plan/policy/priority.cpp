#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// The fast GPUs for the jobs that gain most from them: a free GPU takes, of the jobs that wait,
/// the one whose speed there is largest over its speed on the best other type; equals in the order
/// of arrival; no preemption (S-FJ in tools/studies).
class PriorityBySpeedUp final : public Ranking {
 public:
  bool preempts() const override { return false; }
  bool chooses_by_type() const override { return true; }
  void order(const Progress&, std::vector<JobId>&) override {}  // as they came
  std::optional<std::size_t> choose(const Progress& progress, const std::vector<JobId>& waiting,
                                    TypeId type) const override {
    std::optional<std::size_t> best;
    constexpr double kRounding = 1e-9;  // of gains that are equal
    double most = 0;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      const double gain = gain_of(progress, waiting[i], type);
      if (gain <= most * (1 + kRounding)) continue;
      most = gain;
      best = i;
    }
    return best;
  }

 private:
  static double gain_of(const Progress& progress, JobId job, TypeId type) {
    constexpr double kOnlyHere = 1e9;
    double other = 0;
    for (std::uint32_t t = 0; t < progress.fleet().types.size(); ++t) {
      if (t != type.index && progress.rate(job, {t}) > other) other = progress.rate(job, {t});
    }
    const double here = progress.rate(job, type);
    return other > 0 ? here / other : here > 0 ? kOnlyHere : 0;
  }
};

}  // namespace

std::unique_ptr<Ranking> make_priority(const PolicyOptions&) {
  return std::make_unique<PriorityBySpeedUp>();
}

}  // namespace tracecast::plan
