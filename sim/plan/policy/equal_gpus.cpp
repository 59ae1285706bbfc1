#include "sim/plan/policy/policies.hpp"
#include "sim/plan/policy/resizing.hpp"

namespace tracecast::plan {
namespace {

/// As many GPUs for everybody as the bounds allow, and what one cannot use for the others: dynamic
/// equipartition (McCann, Vaswani and Zahorjan, "A dynamic processor allocation policy for
/// multiprogrammed shared-memory multiprocessors", ACM Transactions on Computer Systems 11(2),
/// 1993, section 3), by weight. The job with the fewest GPUs over its weight grows first. Least
/// sizes in the order of arrival.
class EqualGpus final : public Resizing {
 protected:
  void first_pass(const Progress&, std::vector<JobId>&) const override {}  // as they came
  std::optional<double> urgency(const Progress& progress, JobId job, const Grant& grant,
                                int /*more*/) const override {
    return -grant.gpus / progress.mix().jobs[job.index].weight;
  }
};

}  // namespace

std::unique_ptr<Ranking> make_equal_gpus(const PolicyOptions&) {
  return std::make_unique<EqualGpus>();
}

}  // namespace tracecast::plan
