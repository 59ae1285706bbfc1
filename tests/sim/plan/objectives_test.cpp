#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/policy/policies.hpp"
#include "sim/plan/progress.hpp"
#include "tests/sim/plan/small_mix.hpp"

using namespace tracecast;
using namespace tracecast::plan;

namespace {

/// 2 to 12 jobs of 1 to 4 kinds on 1 to 3 types, all there at the start, with rates of every pair
/// of kinds of one size.
struct Instance {
  Fleet fleet;
  JobMix mix;
  std::vector<JobId> jobs;

  explicit Instance(std::uint64_t seed) {
    Random random(seed);
    const std::size_t types = 1 + random.below(3), kinds = 1 + random.below(4);
    std::string text;
    for (std::size_t t = 0; t < types; ++t) {
      text += "group { count: " + std::to_string(2 + random.below(5)) + " gpu: 't" +
              std::to_string(t) + "' } ";
    }
    fleet = load_fleet(text, "test");
    for (std::size_t k = 0; k < kinds; ++k) {
      JobKind kind;
      kind.gpus = 1 + static_cast<int>(random.below(2));
      for (std::size_t t = 0; t < types; ++t) kind.rates.push_back(0.1 + 3 * random.uniform());
      mix.kinds.push_back(std::move(kind));
    }
    const std::size_t count = 2 + random.below(11);
    for (std::uint32_t j = 0; j < count; ++j) {
      QueuedJob job;
      job.name = std::to_string(j);
      job.kind = {static_cast<std::uint32_t>(random.below(kinds))};
      job.steps = 100 + 10000 * random.uniform();
      mix.jobs.push_back(std::move(job));
      jobs.push_back({j});
    }
    for (std::uint32_t a = 0; a < kinds; ++a) {
      for (std::uint32_t b = a; b < kinds; ++b) {
        for (std::uint32_t t = 0; t < types; ++t) {
          const double keep_a = 0.2 + 0.8 * random.uniform();
          const double keep_b = a == b ? keep_a : 0.2 + 0.8 * random.uniform();
          mix.shared.push_back(
              {{a}, {b}, {t}, keep_a * mix.kinds[a].rates[t], keep_b * mix.kinds[b].rates[t]});
        }
      }
    }
  }
  [[nodiscard]] std::size_t types() const { return fleet.types.size(); }
  [[nodiscard]] const JobKind& kind(std::size_t j) const { return mix.kind_of(jobs[j]); }
  /// Of job a on a type while b shares its GPUs; 0: not of one size.
  [[nodiscard]] double shared(std::size_t a, std::size_t b, std::size_t t) const {
    const std::uint32_t ka = mix.jobs[a].kind.index, kb = mix.jobs[b].kind.index;
    if (mix.kinds[ka].gpus != mix.kinds[kb].gpus) return 0;
    for (const SharedRate& pair : mix.shared) {
      if (pair.type.index != t) continue;
      if (pair.a.index == ka && pair.b.index == kb) return pair.rate_a;
      if (pair.a.index == kb && pair.b.index == ka) return pair.rate_b;
    }
    return 0;
  }
  /// What a second at a rate on a type counts in max-min fairness, over an equal share of the
  /// fleet.
  [[nodiscard]] double worth(std::size_t j, std::size_t t, double rate, bool is_blind) const {
    double equal = 0;
    for (std::size_t u = 0; u < types(); ++u) {
      equal += (is_blind ? 1 : kind(j).rates[u]) * fleet.types[u].gpus / fleet.total_gpus();
    }
    return (is_blind ? rate / kind(j).rates[t] : rate) / equal * kind(j).gpus;
  }
};

/// The least worth that the shares give any job; checks on the way that they are possible.
double level_of(const Instance& in, const Shares& shares, bool is_blind) {
  std::vector<double> gain(in.jobs.size()), time(in.jobs.size()), used(in.types());
  for (std::size_t j = 0; j < in.jobs.size(); ++j) {
    for (std::uint32_t t = 0; t < in.types(); ++t) {
      const double x = shares.at(j, {t});
      CHECK(x >= -1e-9);
      gain[j] += x * in.worth(j, t, in.kind(j).rates[t], is_blind);
      time[j] += x;
      used[t] += x * in.kind(j).gpus;
    }
  }
  for (const PairShare& pair : shares.pairs) {
    for (std::uint32_t t = 0; t < in.types(); ++t) {
      const double x = pair.of_type[t];
      gain[pair.a] += x * in.worth(pair.a, t, in.shared(pair.a, pair.b, t), is_blind);
      gain[pair.b] += x * in.worth(pair.b, t, in.shared(pair.b, pair.a, t), is_blind);
      time[pair.a] += x;
      time[pair.b] += x;
      used[t] += x * in.kind(pair.a).gpus;
    }
  }
  for (const double t : time) CHECK(t <= 1 + 1e-6);
  for (std::size_t t = 0; t < used.size(); ++t)
    CHECK(used[t] <= in.fleet.types[t].gpus * (1 + 1e-6));
  return *std::min_element(gain.begin(), gain.end());
}

/// The largest least worth by a linear program with a variable for every job, pair of jobs and
/// type.
double best_level(const Instance& in, bool is_blind, bool shares_space) {
  LinearProgram lp;
  const std::size_t n = in.jobs.size(), z = lp.add_variable(1);
  std::vector<std::vector<LinearProgram::Term>> gain(n), time(n), used(in.types());
  for (std::size_t t = 0; t < in.types(); ++t) {
    for (std::size_t a = 0; a < n; ++a) {
      const std::size_t x = lp.add_variable(0);
      gain[a].push_back({x, in.worth(a, t, in.kind(a).rates[t], is_blind)});
      time[a].push_back({x, 1});
      used[t].push_back({x, static_cast<double>(in.kind(a).gpus)});
      for (std::size_t b = a + 1; shares_space && b < n; ++b) {
        if (in.shared(a, b, t) <= 0) continue;
        const std::size_t y = lp.add_variable(0);
        gain[a].push_back({y, in.worth(a, t, in.shared(a, b, t), is_blind)});
        gain[b].push_back({y, in.worth(b, t, in.shared(b, a, t), is_blind)});
        time[a].push_back({y, 1});
        time[b].push_back({y, 1});
        used[t].push_back({y, static_cast<double>(in.kind(a).gpus)});
      }
    }
  }
  for (std::size_t j = 0; j < n; ++j) {
    gain[j].push_back({z, -1});
    lp.add_row(std::move(gain[j]), 0, LinearProgram::kInfinity);
    lp.add_row(std::move(time[j]), 0, 1);
  }
  for (std::size_t t = 0; t < in.types(); ++t)
    lp.add_row(std::move(used[t]), 0, in.fleet.types[t].gpus);
  return lp.maximize()->value;
}

}  // namespace

TEST_SUITE("sim/plan/objectives") {
  TEST_CASE(
      "max-min fairness, aware and blind, alone and sharing, is as fair as a linear program over "
      "all jobs and pairs says, to 1e-6, on 20 random instances each") {
    struct Row {
      const char* what;
      std::unique_ptr<Sharing> (*make)(const PolicyOptions&);
      bool is_blind, shares_space;
    };
    const Row rows[] = {{"aware", make_max_min, false, false},
                        {"blind", make_max_min_blind, true, false},
                        {"aware, sharing", make_max_min_packed, false, true},
                        {"blind, sharing", make_max_min_blind_packed, true, true}};
    for (const Row& row : rows) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(row.what);
        CAPTURE(seed);
        const Instance in(seed);
        const Progress progress(in.mix, in.fleet, find_rules("ideal"));
        const Shares shares = row.make({})->divide(progress, in.jobs);
        const double best = best_level(in, row.is_blind, row.shares_space);
        CHECK(level_of(in, shares, row.is_blind) == doctest::Approx(best).epsilon(1e-6));
      }
    }
  }

  TEST_CASE("the shortest makespan and the largest sum of speeds are those of linear programs") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      const Instance in(seed);
      const Progress progress(in.mix, in.fleet, find_rules("ideal"));
      for (const bool is_makespan : {true, false}) {
        CAPTURE(is_makespan);
        LinearProgram lp;
        const std::size_t z = lp.add_variable(is_makespan ? 1 : 0);
        std::vector<std::vector<LinearProgram::Term>> used(in.types());
        for (std::size_t j = 0; j < in.jobs.size(); ++j) {
          std::vector<LinearProgram::Term> speed{{z, is_makespan ? -in.mix.jobs[j].steps : 0}},
              time;
          for (std::size_t t = 0; t < in.types(); ++t) {
            const std::size_t x = lp.add_variable(is_makespan ? 0 : in.kind(j).rates[t]);
            speed.push_back({x, in.kind(j).rates[t]});
            time.push_back({x, 1});
            used[t].push_back({x, static_cast<double>(in.kind(j).gpus)});
          }
          lp.add_row(std::move(speed), 0, LinearProgram::kInfinity);
          lp.add_row(std::move(time), 0, 1);
        }
        for (std::size_t t = 0; t < in.types(); ++t)
          lp.add_row(std::move(used[t]), 0, in.fleet.types[t].gpus);
        const Shares shares = (is_makespan ? make_min_makespan({}) : make_max_throughput({}))
                                  ->divide(progress, in.jobs);
        double least = 1e300, sum = 0;
        for (std::size_t j = 0; j < in.jobs.size(); ++j) {
          double speed = 0;
          for (std::uint32_t t = 0; t < in.types(); ++t)
            speed += shares.at(j, {t}) * in.kind(j).rates[t];
          least = std::min(least, speed / in.mix.jobs[j].steps);
          sum += speed;
        }
        CHECK((is_makespan ? least : sum) == doctest::Approx(lp.maximize()->value).epsilon(1e-6));
      }
    }
  }
}
