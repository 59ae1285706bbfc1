#include <algorithm>
#include <utility>

#include "sim/plan/policy/policies.hpp"
#include "sim/plan/self_dual_path.hpp"

namespace tracecast::plan {
namespace {

/// Shortest makespan of the jobs that are there: the least T for which shares x exist with
/// sum_t rate_t x_t >= left / T for every job (Narayanan et al., OSDI 2020, section 4.2). With z =
/// 1 / T that is the largest z with sum_t rate_t x_t >= left z: a linear program.
///
/// The published code (Gavel's scheduler/policies/min_total_duration.py) halves the span from 100 s
/// to 10^6 s until its ends are within 5 %, and takes what its solver gives for the upper one.
class MinMakespan final : public Sharing {
 public:
  explicit MinMakespan(bool by_halving) : by_halving_(by_halving) {}

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    FairProgram program;
    for (const GpuType& type : progress.fleet().types) program.capacity.push_back(type.gpus);
    for (const JobId job : jobs) {
      FairRow row;
      row.gpus = progress.mix().gpus_of(job);
      const double left =
          std::max(progress.expected_left(job), 1e-9 * progress.mix().jobs[job.index].steps);
      // The unit of steps matters to where a solver's path ends, not to what is best.
      const double unit = progress.counted(job);
      row.weight = unit * left;
      for (std::uint32_t t = 0; t < program.capacity.size(); ++t)
        row.rates.push_back(unit * progress.rate(job, {t}));
      program.rows.push_back(std::move(row));
    }
    FairShares fair = follow_self_dual_path(program);
    if (by_halving_) {
      const double least_s = 1 / fair.level, taken_s = halve(least_s);
      FairShares other = follow_self_dual_path(program, 1 / taken_s);
      if (other.gap < kEnough) fair = std::move(other);  // else too near the least
    }
    Shares shares(jobs.size(), program.capacity.size());
    std::copy(fair.x.begin(), fair.x.end(), shares.alone.begin());
    return shares;
  }

 private:
  static constexpr double kEnough = 1e-5;
  /// The time at which the published search ends when `least_s` is possible and less is not.
  static double halve(double least_s) {
    double low = 100, high = 1e6, top = high;
    for (;;) {
      bool is_possible = false;
      while (1.05 * low < high) {
        const double middle = (low + high) / 2;
        if (middle >= least_s) {
          high = middle;
          is_possible = true;
        } else {
          low = middle;
        }
      }
      if (is_possible) return high;
      low = top;
      top *= 10;
      high = top;
    }
  }

  bool by_halving_;
};

}  // namespace

std::unique_ptr<Sharing> make_min_makespan(const PolicyOptions& options) {
  return std::make_unique<MinMakespan>(options.makespan_by_halving);
}

}  // namespace tracecast::plan
