#include <algorithm>

#include "sim/plan/policy/policies.hpp"
#include "sim/plan/self_dual_path.hpp"

namespace tracecast::plan {
namespace {

/// Shortest makespan of the jobs that are there: the least T for which shares x exist with
/// sum_t rate_t x_t >= left / T for every job (Narayanan et al., OSDI 2020, section 4.2). With z = 1 / T that is the largest
/// z with sum_t (rate_t / left) x_t >= z: a linear program, so no search for T is needed.
class MinMakespan final : public Sharing {
 public:
  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    FairProgram program;
    for (const GpuType& type : progress.fleet().types) program.capacity.push_back(type.gpus);
    // In parts of the longest job, so that numbers are near one.
    double longest_s = 0;
    for (const JobId job : jobs) longest_s = std::max(longest_s, progress.remaining(job).in_s());
    for (const JobId job : jobs) {
      FairRow row;
      row.gpus = progress.mix().gpus_of(job);
      const double left =
          std::max(progress.left_steps(job), 1e-9 * progress.mix().jobs[job.index].steps);
      for (std::uint32_t t = 0; t < program.capacity.size(); ++t)
        row.rates.push_back(progress.rate(job, {t}) / left * longest_s);
      program.rows.push_back(std::move(row));
    }
    const FairShares fair = follow_self_dual_path(program);
    Shares shares(jobs.size(), program.capacity.size());
    std::copy(fair.x.begin(), fair.x.end(), shares.alone.begin());
    return shares;
  }
};

}  // namespace

std::unique_ptr<Sharing> make_min_makespan(const PolicyOptions&) {
  return std::make_unique<MinMakespan>();
}

}  // namespace tracecast::plan
