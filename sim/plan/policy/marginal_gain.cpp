#include <algorithm>

#include "sim/plan/policy/policies.hpp"
#include "sim/plan/policy/resizing.hpp"

namespace tracecast::plan {
namespace {

/// GPUs where they save most time: the job whose remaining time falls most per GPU added grows
/// first (Peng et al., "Optimus", EuroSys 2018, section 4.1). Least sizes in the order of remaining
/// time x GPUs, which is ours: Optimus says only that every job begins with the least.
class MarginalGain final : public Resizing {
 protected:
  void first_pass(const Progress& progress, std::vector<JobId>& jobs) const override {
    std::vector<double> keys(progress.mix().jobs.size());
    for (const JobId job : jobs) keys[job.index] = key_of(Seconds(least_service(progress, job)));
    sort_by(keys, jobs);
  }
  std::optional<double> urgency(const Progress& progress, JobId job, const Grant& grant,
                                int more) const override {
    const double left = progress.expected_left(job);
    const double saved = left / progress.rate(job, grant.type, grant.gpus) -
                         left / progress.rate(job, grant.type, more);
    return saved / (more - grant.gpus);
  }

 private:
  /// GPU seconds at the least size, where it is fastest.
  static double least_service(const Progress& progress, JobId job) {
    const JobKind& kind = progress.mix().kind_of(job);
    double rate = 0;
    const auto consider = [&](int gpus) {
      for (std::uint32_t t = 0; t < kind.rates.size(); ++t)
        rate = std::max(rate, progress.rate(job, {t}, gpus) / gpus);
    };
    if (!kind.is_elastic()) consider(kind.gpus);
    for (std::size_t s = 0; s < kind.sizes.size() && rate <= 0; ++s) consider(kind.sizes[s].gpus);
    return progress.expected_left(job) / rate;
  }
};

}  // namespace

std::unique_ptr<Ranking> make_marginal_gain(const PolicyOptions&) {
  return std::make_unique<MarginalGain>();
}

}  // namespace tracecast::plan
