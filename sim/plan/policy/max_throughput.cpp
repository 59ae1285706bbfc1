#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Most steps per second of all jobs together (`max_throughput`), in steps as each job counts them, or per dollar an hour of
/// the GPUs they hold (`cost`), where jobs with deadlines are as fast as those ask as long as the fleet can do that
/// (Narayanan et al., OSDI 2020, section 4.2; Gavel's scheduler/policies/max_sum_throughput.py): a linear program.
class MaxThroughput final : public Sharing {
 public:
  explicit MaxThroughput(bool per_dollar) : per_dollar_(per_dollar) {}

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    const std::vector<Row> rows = rows_of(progress, jobs);
    auto solution = program(progress, rows, per_dollar_).maximize();
    if (!solution) solution = program(progress, rows, false).maximize();
    TRACECAST_CHECK(solution.has_value(), "no shares are always possible");
    const std::size_t types = progress.fleet().types.size();
    Shares shares(jobs.size(), types);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (const std::size_t j : rows[r].jobs) {
        for (std::uint32_t t = 0; t < types; ++t) {
          shares.at(j, {t}) = solution->x[r * types + t] / static_cast<double>(rows[r].jobs.size());
        }
      }
    }
    return shares;
  }

 private:
  /// Jobs that are alike: of one kind, and without a deadline or one alone.
  struct Row {
    JobId job;
    std::vector<std::size_t> jobs;  ///< places in the list
    std::optional<double> least_rate;
  };

  [[nodiscard]] std::vector<Row> rows_of(const Progress& progress,
                                         std::span<const JobId> jobs) const {
    std::vector<Row> rows;
    std::map<std::pair<KindId, double>, std::size_t> known;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const QueuedJob& job = progress.mix().jobs[jobs[j].index];
      std::optional<double> least;
      if (per_dollar_ && job.deadline && *job.deadline > progress.now()) {
        least =
            progress.expected_left(jobs[j]) / (*job.deadline - progress.now()).in_seconds().in_s();
      }
      const std::pair alike(job.kind, progress.counted(jobs[j]));
      const auto row = known.find(alike);
      if (least || row == known.end()) {
        if (!least) known.emplace(alike, rows.size());
        rows.push_back({jobs[j], {j}, least});
      } else {
        rows[row->second].jobs.push_back(j);
      }
    }
    return rows;
  }

  /// Variables: time of all jobs of a row on a type.
  [[nodiscard]] LinearProgram program(const Progress& progress, const std::vector<Row>& rows,
                                      bool with_deadlines) const {
    const std::vector<GpuType>& types = progress.fleet().types;
    LinearProgram program;
    std::vector<std::vector<LinearProgram::Term>> held(types.size());
    for (const Row& row : rows) {
      std::vector<LinearProgram::Term> all, speed;
      for (std::uint32_t t = 0; t < types.size(); ++t) {
        const double rate = progress.rate(row.job, {t});
        const double gain =
            rate * progress.counted(row.job) / (per_dollar_ ? *types[t].usd_per_hour : 1.0);
        const std::size_t x =
            program.add_variable(gain, 0, rate > 0 ? LinearProgram::kInfinity : 0);
        all.push_back({x, 1});
        speed.push_back({x, rate});
        held[t].push_back({x, static_cast<double>(progress.mix().gpus_of(row.job))});
      }
      program.add_row(std::move(all), 0, static_cast<double>(row.jobs.size()));
      if (with_deadlines && row.least_rate)
        program.add_row(std::move(speed), *row.least_rate, LinearProgram::kInfinity);
    }
    for (std::size_t t = 0; t < types.size(); ++t)
      program.add_row(std::move(held[t]), 0, types[t].gpus);
    return program;
  }

  bool per_dollar_;
};

}  // namespace

std::unique_ptr<Sharing> make_max_throughput(const PolicyOptions&) {
  return std::make_unique<MaxThroughput>(false);
}
std::unique_ptr<Sharing> make_cost(const PolicyOptions&) {
  return std::make_unique<MaxThroughput>(true);
}

}  // namespace tracecast::plan
