#include <fmt/format.h>

#include <map>
#include <optional>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Most steps per second of all jobs together (`max_throughput`), in steps as each job counts them,
/// or per dollar an hour of the GPUs they hold (`cost`), where jobs with deadlines are as fast as
/// those ask as long as the fleet can do that (Narayanan et al., OSDI 2020, section 4.2; Gavel's
/// scheduler/policies/max_sum_throughput.py): a linear program.
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
    for (std::size_t w = 0; w < ways_.size(); ++w) {
      const Way& way = ways_[w];
      const Row& row = rows[way.row];
      const double part = solution->x[w] / static_cast<double>(row.jobs.size());
      if (part <= 0) continue;
      const bool is_stated = way.gpus == progress.mix().gpus_of(row.job);
      for (const std::size_t j : row.jobs) {
        if (is_stated) {
          shares.at(j, way.type) = part;
        } else {
          std::vector<double> of_type(types);
          of_type[way.type.index] = part;
          shares.sized.push_back({static_cast<std::uint32_t>(j), way.gpus, std::move(of_type)});
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

  /// A variable: time of all jobs of a row on so many GPUs of a type.
  struct Way {
    std::size_t row = 0;
    TypeId type;
    int gpus = 1;
  };
  [[nodiscard]] LinearProgram program(const Progress& progress, const std::vector<Row>& rows,
                                      bool with_deadlines) {
    const std::vector<GpuType>& types = progress.fleet().types;
    LinearProgram program;
    ways_.clear();
    std::vector<std::vector<LinearProgram::Term>> held(types.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Row& row = rows[r];
      const JobKind& kind = progress.mix().kind_of(row.job);
      std::vector<LinearProgram::Term> all, speed;
      const auto add = [&](int gpus) {
        for (std::uint32_t t = 0; t < types.size(); ++t) {
          const double rate = progress.rate(row.job, {t}, gpus);
          const double gain = rate * progress.counted(row.job) / price(types[t], kind, gpus);
          const std::size_t x =
              program.add_variable(gain, 0, rate > 0 ? LinearProgram::kInfinity : 0);
          ways_.push_back({r, {t}, gpus});
          all.push_back({x, 1});
          speed.push_back({x, rate});
          held[t].push_back({x, static_cast<double>(gpus)});
        }
      };
      if (!kind.is_elastic()) add(kind.gpus);
      for (const GangSize& size : kind.sizes) add(size.gpus);
      program.add_row(std::move(all), 0, static_cast<double>(row.jobs.size()));
      if (with_deadlines && row.least_rate)
        program.add_row(std::move(speed), *row.least_rate, LinearProgram::kInfinity);
    }
    for (std::size_t t = 0; t < types.size(); ++t)
      program.add_row(std::move(held[t]), 0, types[t].gpus);
    return program;
  }

  /// Of a second, where steps per dollar are wanted: Gavel counts a gang's dollars as those of one
  /// GPU, whatever its size, which says nothing where the size is to be chosen.
  [[nodiscard]] double price(const GpuType& type, const JobKind& kind, int gpus) const {
    if (!per_dollar_) return 1;
    return *type.usd_per_hour * (kind.is_elastic() ? static_cast<double>(gpus) / kind.gpus : 1.0);
  }

  bool per_dollar_;
  std::vector<Way> ways_;  ///< by variable
};

}  // namespace

std::unique_ptr<Sharing> make_max_throughput(const PolicyOptions&) {
  return std::make_unique<MaxThroughput>(false);
}
std::unique_ptr<Sharing> make_cost(const PolicyOptions&) {
  return std::make_unique<MaxThroughput>(true);
}

}  // namespace tracecast::plan
