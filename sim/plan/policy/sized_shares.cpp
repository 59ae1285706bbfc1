#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// Max-min fairness (max_min.cpp) and the shortest makespan (min_makespan.cpp) where gangs are
/// elastic: every size of a job is one more way to spend its time. A linear program over alike
/// jobs, GPU types and sizes, x the time of all jobs of a row:
///   largest z with sum rate_ts x_ts >= copies demand z for every row, sum x_ts <= copies, sum over
///   rows and sizes of gpus_s x_ts <= capacity_t.
/// Rates and demands are those of the two policies with the stated size as the measure: what an
/// equal share of the fleet gives a job, or what is left of it. Of all shares that are as good
/// those with the largest sum of speeds.
class SizedShares final : public Sharing {
 public:
  enum class Goal { MaxMin, Makespan };
  explicit SizedShares(Goal goal) : goal_(goal) {}

  Shares divide(const Progress& progress, std::span<const JobId> jobs) override {
    find_rows(progress, jobs);
    const auto best = make_program(progress, std::nullopt).maximize();
    TRACECAST_CHECK(best.has_value(), "no shares are always possible");
    constexpr double kRounding = 1e-7;
    const auto fullest = make_program(progress, best->value * (1 - kRounding)).maximize();
    return uncertainty(progress, jobs, fullest ? fullest->x : best->x);
  }

 private:
  struct Row {
    KindId kind;
    double unit = 1;  ///< what a rate of 1 is worth
    double demand = 1;
    std::vector<std::uint32_t> places;  ///< in the list of jobs
  };
  struct Way {
    std::size_t row = 0;
    TypeId type;
    int gpus = 1;
  };

  void find_rows(const Progress& progress, std::span<const JobId> jobs) {
    rows_.clear();
    const JobMix& mix = progress.mix();
    std::map<std::pair<KindId, double>, std::size_t> known;
    double longest_s = 0;
    for (std::uint32_t j = 0; j < jobs.size(); ++j) {
      const QueuedJob& job = mix.jobs[jobs[j].index];
      if (goal_ == Goal::MaxMin) {
        const auto [row, is_new] = known.emplace(std::pair(job.kind, job.weight), rows_.size());
        if (is_new) rows_.push_back({job.kind, 1 / equal_share(progress, job), job.weight, {}});
        rows_[row->second].places.push_back(j);
      } else {
        const double left = std::max(progress.expected_left(jobs[j]), 1e-9 * job.steps);
        rows_.push_back({job.kind, 1 / left, 1, {j}});
        longest_s = std::max(longest_s, left / mix.best_rate(jobs[j]));
      }
    }
    // Levels near one, whatever the unit of time.
    if (goal_ == Goal::Makespan) {
      for (Row& row : rows_) row.unit *= longest_s;
    }
  }
  /// Steps per second of an equal share of the fleet per GPU of the gang, at the stated size.
  static double equal_share(const Progress& progress, const QueuedJob& job) {
    const JobKind& kind = progress.mix().kinds[job.kind.index];
    double equal = 0;
    for (std::size_t t = 0; t < kind.rates.size(); ++t)
      equal += kind.rates[t] * progress.fleet().types[t].gpus;
    return equal / progress.fleet().total_gpus() / kind.gpus;
  }

  LinearProgram make_program(const Progress& progress, std::optional<double> floor) {
    using Term = LinearProgram::Term;
    const std::vector<GpuType>& types = progress.fleet().types;
    ways_.clear();
    LinearProgram program;
    const std::size_t level = program.add_variable(floor ? 0 : 1, floor.value_or(0));
    std::vector<std::vector<Term>> held(types.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const Row& row = rows_[r];
      const JobKind& kind = progress.mix().kinds[row.kind.index];
      const auto copies = static_cast<double>(row.places.size());
      std::vector<Term> speed{{level, -copies * row.demand}}, time;
      const auto add = [&](int gpus) {
        for (std::uint32_t t = 0; t < types.size(); ++t) {
          const double worth = kind.rate(gpus, {t}) * row.unit;
          if (worth <= 0 || gpus > types[t].gpus) continue;
          const std::size_t x = program.add_variable(floor ? worth : 0);
          ways_.push_back({r, {t}, gpus});
          speed.push_back({x, worth});
          time.push_back({x, 1});
          held[t].push_back({x, static_cast<double>(gpus)});
        }
      };
      if (!kind.is_elastic()) add(kind.gpus);
      for (const GangSize& size : kind.sizes) add(size.gpus);
      program.add_row(std::move(speed), 0, LinearProgram::kInfinity);
      program.add_row(std::move(time), 0, copies);
    }
    for (std::size_t t = 0; t < types.size(); ++t)
      program.add_row(std::move(held[t]), 0, types[t].gpus);
    return program;
  }

  /// Every job of a row the same.
  Shares uncertainty(const Progress& progress, std::span<const JobId> jobs,
                     const std::vector<double>& x) const {
    constexpr double kNothing = 1e-9;
    const std::size_t types = progress.fleet().types.size();
    Shares shares(jobs.size(), types);
    std::map<std::pair<std::uint32_t, int>, std::vector<double>> sized;
    for (std::size_t w = 0; w < ways_.size(); ++w) {
      const Way& way = ways_[w];
      const Row& row = rows_[way.row];
      const double part = x[w + 1] / static_cast<double>(row.places.size());
      if (part <= kNothing) continue;
      const bool is_stated = way.gpus == progress.mix().kinds[row.kind.index].gpus;
      for (const std::uint32_t place : row.places) {
        if (is_stated) {
          shares.at(place, way.type) = part;
        } else {
          const auto of = sized.emplace(std::pair(place, way.gpus), std::vector<double>(types));
          of.first->second[way.type.index] = part;
        }
      }
    }
    for (auto& [what, of_type] : sized)
      shares.sized.push_back({what.first, what.second, std::move(of_type)});
    return shares;
  }

  Goal goal_;
  std::vector<Row> rows_;
  std::vector<Way> ways_;  ///< variable i + 1 of the program
};

}  // namespace

std::unique_ptr<Sharing> make_max_min_sized(const PolicyOptions&) {
  return std::make_unique<SizedShares>(SizedShares::Goal::MaxMin);
}
std::unique_ptr<Sharing> make_min_makespan_sized(const PolicyOptions&) {
  return std::make_unique<SizedShares>(SizedShares::Goal::Makespan);
}

}  // namespace tracecast::plan
