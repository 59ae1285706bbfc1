#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/plan/schedule.hpp"
#include "tests/sim/plan/schedule_checks.hpp"
#include "tests/sim/plan/small_mix.hpp"

// Who comes first: jobs dealt to GPU types, and jobs that a policy holds equal.
using namespace tracecast;
using namespace tracecast::plan;
using namespace tracecast::test;

TEST_SUITE_BEGIN("sim/plan/order");

TEST_CASE("even and priority end when three hand-made schedules do") {
  struct Row {
    const char* what;
    std::vector<SmallJob> jobs;
    double even_s, priority_s;
  };
  // One fast and one slow GPU; alone_s: on the fast, on the slow.
  const Row rows[] = {
      // Even deals one to each: max(10, 12). Priority: the fast takes the job that gains most (4
      // against 12), the slow the
      // other: max(4, 11).
      {"two kinds, one job each", {{0, 1, {10, 11}}, {0, 1, {4, 12}}}, 12, 11},
      // Two kinds alike: one each under both, max(5, 6).
      {"two jobs alike", {{0, 1, {5, 6}}, {0, 1, {5, 6}}}, 6, 6},
      // Even: fast 2, slow 6, and the third, of a kind that has had neither, to the first in the
      // fleet's order: 2 + 8.
      // Priority: fast takes 2 (gain 5), then at 2 the next by gain: 3 (gain 2) until 5; slow takes
      // the least gain, 8, until 8.
      {"three kinds", {{0, 1, {2, 10}}, {0, 1, {3, 6}}, {0, 1, {8, 8}}}, 10, 8},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const JobMix mix = mix_of(row.jobs);
    const Fleet fleet = fleet_of({1, 1});
    for (const auto& [policy, expected] :
         {std::pair("even", row.even_s), std::pair("priority", row.priority_s)}) {
      CAPTURE(policy);
      const std::vector<double> ends = ends_s(run(mix, fleet, find_rules("ideal"), policy));
      CHECK(*std::max_element(ends.begin(), ends.end()) == doctest::Approx(expected));
    }
  }
}

TEST_CASE("of two jobs of one kind even gives each GPU one") {
  JobMix mix = mix_of({{0, 1, {5, 6}}});
  mix.jobs.push_back(mix.jobs.front());
  mix.jobs.back().name = "1";
  CHECK(ends_s(run(mix, fleet_of({1, 1}), find_rules("ideal"), "even")) == std::vector{5.0, 6.0});
}

TEST_CASE(
    "even deals every GPU one job a round, whatever their kinds, and every kind its share of "
    "types") {
  struct Row {
    std::vector<int> gpus;  ///< by type
    std::size_t kinds;
    std::size_t jobs_of_a_kind;  ///< that come one after the other
  };
  const Row rows[] = {{{7, 3}, 10, 1}, {{7, 3}, 2, 1},    {{7, 3}, 100, 1},
                      {{7, 3}, 3, 10}, {{2, 10}, 9, 1},   {{2, 10}, 9, 7},
                      {{1, 1}, 2, 1},  {{4, 4, 4}, 4, 1}, {{1, 5, 30}, 6, 1}};
  for (const Row& row : rows) {
    int total = 0;
    for (const int gpus : row.gpus) total += gpus;
    CAPTURE(total);
    CAPTURE(row.kinds);
    CAPTURE(row.jobs_of_a_kind);
    JobMix mix;
    for (std::size_t k = 0; k < row.kinds; ++k) {
      JobKind kind;
      kind.model = std::to_string(k);
      kind.rates.assign(row.gpus.size(), 1.0);
      mix.kinds.push_back(std::move(kind));
    }
    const auto rounds = 12UL;
    for (std::size_t j = 0; j < rounds * static_cast<std::size_t>(total); ++j) {
      QueuedJob job;
      job.name = std::to_string(j);
      job.kind = {static_cast<std::uint32_t>(j / row.jobs_of_a_kind % row.kinds)};
      job.steps = 100;
      mix.jobs.push_back(std::move(job));
    }
    const Schedule schedule = run(mix, fleet_of(row.gpus), find_rules("ideal"), "even");
    // Jobs of 100 s each: no GPU is idle while one waits, so that all are done after as many
    // rounds.
    CHECK(schedule.end.in_seconds().in_s() == doctest::Approx(100.0 * rounds));
    std::vector<std::vector<double>> of(row.kinds, std::vector<double>(row.gpus.size()));
    for (std::size_t j = 0; j < mix.jobs.size(); ++j)
      ++of[mix.jobs[j].kind.index][schedule.jobs[j].type.index];
    for (std::size_t k = 0; k < row.kinds; ++k) {
      double jobs = 0;
      for (const double n : of[k]) jobs += n;
      for (std::size_t t = 0; t < row.gpus.size(); ++t) {
        CAPTURE(k);
        CAPTURE(t);
        CHECK(std::abs(of[k][t] - jobs * row.gpus[t] / total) < 2.5);
      }
    }
  }
}

TEST_CASE("even gives a job that runs on some types only to one of them") {
  // The slow type cannot run kind B; the fast has two GPUs for its four jobs, the slow one two for
  // the four of A.
  const JobMix mix = mix_of({{0, 1, {5, 0}},
                             {0, 1, {5, 0}},
                             {0, 1, {5, 0}},
                             {0, 1, {5, 0}},
                             {0, 1, {5, 5}},
                             {0, 1, {5, 5}},
                             {0, 1, {5, 5}},
                             {0, 1, {5, 5}}});
  const std::vector<double> ends = ends_s(run(mix, fleet_of({2, 2}), find_rules("ideal"), "even"));
  CHECK(*std::max_element(ends.begin(), ends.end()) == doctest::Approx(10));
}

TEST_CASE("jobs with equal keys are served as they came, however their times round") {
  // Gangs of which no two fit at once, so that the order is that of the ends. Of one moment the
  // file's order counts.
  Random random(3);
  for (const char* policy : {"srsf", "srtf", "deadline", "las", "fifo", "fifo_perf", "priority",
                             "marginal_gain", "equal_gpus"}) {
    const bool by_service =
        std::string_view(policy) == "srsf" || std::string_view(policy) == "marginal_gain";
    for (int round = 0; round < 20; ++round) {
      JobMix mix;
      // Remaining time, or time x GPUs: the same number from unlike steps, rates and GPUs, which
      // doubles round either way.
      const double key = static_cast<double>(1 + random.below(400));
      constexpr std::size_t kJobs = 12;
      for (std::uint32_t j = 0; j < kJobs; ++j) {
        JobKind kind;
        kind.gpus = 5 + static_cast<int>(random.below(4));
        const double steps = static_cast<double>(1 + random.below(999));
        kind.rates = {by_service ? steps * kind.gpus / key : steps / key};
        // Alike in their gain, too, and only one of the two types has room for gangs of five.
        kind.rates.push_back(kind.rates[0] / 3);
        mix.kinds.push_back(std::move(kind));
        QueuedJob job;
        job.name = std::to_string(j);
        job.kind = {j};
        job.steps = steps;
        job.deadline = engine::to_ticks<Time>(Seconds(1e6));
        mix.jobs.push_back(std::move(job));
      }
      CAPTURE(policy);
      CAPTURE(key);
      const std::vector<double> ends =
          ends_s(run(mix, fleet_of({8, 1}), find_rules("ideal"), policy));
      CHECK(std::is_sorted(ends.begin(), ends.end()));
    }
  }
}

TEST_CASE("equal keys of jobs that have run a while are equal, too") {
  // A runs 100 s of its 300.3 on four GPUs, then B comes with the same GPU time that A has left: A
  // goes on.
  const JobMix mix = mix_of({{0, 4, {300.3}}, {100, 8, {100.15}}, {100, 6, {801.2 / 6}}});
  // 4 x 200.3 = 8 x 100.15 = 6 x 133.53: A, B and C are done in this order.
  const std::vector<double> ends = ends_s(run(mix, fleet_of({8}), find_rules("ideal"), "srsf"));
  CHECK(ends[0] == doctest::Approx(300.3));
  CHECK(ends[1] == doctest::Approx(300.3 + 100.15));
  CHECK(ends[2] == doctest::Approx(300.3 + 100.15 + 801.2 / 6));
}

TEST_SUITE_END();
