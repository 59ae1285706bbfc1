#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/policy/policies.hpp"
#include "sim/plan/schedule.hpp"
#include "tests/sim/plan/schedule_checks.hpp"
#include "tests/sim/plan/small_mix.hpp"

// Gangs whose number of GPUs may change.
using namespace tracecast;
using namespace tracecast::plan;
using namespace tracecast::test;

namespace {

/// Steps per second with so many GPUs, on each type; the first is what the file states.
using Sizes = std::vector<std::pair<int, std::vector<double>>>;

struct ElasticJob {
  double submit_s = 0, steps = 1;
  Sizes sizes;
  double resize_s = 0;
};

JobMix elastic_mix(const std::vector<ElasticJob>& jobs) {
  JobMix mix;
  for (const ElasticJob& job : jobs) {
    JobKind kind;
    kind.gpus = job.sizes.front().first;
    kind.rates = job.sizes.front().second;
    kind.resize_cost = Seconds(job.resize_s);
    if (job.sizes.size() > 1) {
      for (const auto& [gpus, rates] : job.sizes) kind.sizes.push_back({gpus, rates, {}});
      std::sort(kind.sizes.begin(), kind.sizes.end(),
                [](const GangSize& a, const GangSize& b) { return a.gpus < b.gpus; });
    }
    QueuedJob queued;
    queued.name = std::to_string(mix.jobs.size());
    queued.kind = {static_cast<std::uint32_t>(mix.kinds.size())};
    queued.submit = engine::to_ticks<Time>(Seconds(job.submit_s));
    queued.steps = job.steps;
    mix.kinds.push_back(std::move(kind));
    mix.jobs.push_back(std::move(queued));
  }
  return mix;
}

void check_ends(const Schedule& schedule, const std::vector<double>& expected) {
  const std::vector<double> ends = ends_s(schedule);
  REQUIRE(ends.size() == expected.size());
  for (std::size_t j = 0; j < ends.size(); ++j) {
    CAPTURE(j);
    CHECK(ends[j] == doctest::Approx(expected[j]).epsilon(1e-5));
  }
}

/// Jobs of one to four sizes with rates that grow less than their GPUs, on one or two types.
JobMix random_elastic_mix(std::uint64_t seed, std::size_t jobs, std::size_t types) {
  Random random(seed);
  std::vector<ElasticJob> all;
  double now = 0;
  for (std::size_t j = 0; j < jobs; ++j) {
    ElasticJob job;
    now += 200 * random.uniform();
    job.submit_s = now;
    job.steps = 60 + 3000 * random.uniform();
    std::vector<double> rates;
    for (std::size_t t = 0; t < types; ++t) rates.push_back(0.5 + random.uniform());
    const std::size_t sizes = 1 + random.below(3);
    for (int gpus = 1; job.sizes.size() < sizes; gpus *= 2) {
      job.sizes.emplace_back(gpus, rates);
      for (double& rate : rates) rate *= 1 + random.uniform();
    }
    // What is stated need not be the least.
    std::swap(job.sizes.front(), job.sizes[random.below(sizes)]);
    all.push_back(std::move(job));
  }
  return elastic_mix(all);
}

}  // namespace

TEST_SUITE("sim/plan/elastic") {
  TEST_CASE("equal GPUs for all: a schedule by hand") {
    // Four GPUs. A alone has all four: 3 steps/s, 6 done at 2. Then two each, 2 steps/s: B's 4
    // steps end at 4, A has 2 left and all four GPUs again: 2/3 s.
    const Sizes sizes{{1, {1}}, {2, {2}}, {4, {3}}};
    JobMix mix = elastic_mix({{0, 12, sizes}, {2, 4, sizes}});
    const Fleet fleet = fleet_of({4});
    Schedule schedule = run(mix, fleet, find_rules("ideal"), "equal_gpus");
    check_ends(schedule, {4 + 2.0 / 3, 4});
    CHECK(schedule.jobs[0].resizes == 2);
    CHECK(schedule.jobs[0].gpu_s == doctest::Approx(2 * 4 + 2 * 2 + 4 * 2.0 / 3).epsilon(1e-5));
    CHECK(schedule.jobs[1].resizes == 0);
    check_capacity(fleet, schedule);
    // Another size costs A a second: it works from 3 on, has 4 left at 4, works again from 5 on:
    // 4/3 s.
    for (JobKind& kind : mix.kinds) kind.resize_cost = Seconds(1);
    schedule = run(mix, fleet, find_rules("ideal"), "equal_gpus");
    check_ends(schedule, {5 + 4.0 / 3, 4});
    CHECK(schedule.jobs[0].overhead.in_s() == doctest::Approx(2));
    CHECK(schedule.jobs[1].overhead.in_s() == doctest::Approx(0));
  }

  TEST_CASE("a start that the rules charge costs a resize as much") {
    Rules rules = find_rules("ideal");
    rules.start_charge = StartCharge::WhenStarted;
    const Sizes sizes{{1, {1}}, {2, {2}}, {4, {3}}};
    JobMix mix = elastic_mix({{0, 12, sizes}, {2, 4, sizes}});
    for (JobKind& kind : mix.kinds) {
      for (GangSize& size : kind.sizes) size.start_cost = Seconds(0.5 * size.gpus);
    }
    // A starts on four for 2 s and has done nothing at 2; both start on two for 1 s: B works 3
    // to 5. A has 12 - 4 = 8 left at 5, starts on four until 7, ends 8/3 s later.
    const Schedule schedule = run(mix, fleet_of({4}), rules, "equal_gpus");
    check_ends(schedule, {7 + 8.0 / 3, 5});
    CHECK(schedule.jobs[0].overhead.in_s() == doctest::Approx(2 + 1 + 2));
  }

  TEST_CASE("GPUs where they save most time, against as many for all: by hand") {
    // Three GPUs. B gains little from a second, A much.
    const Sizes a{{1, {1}}, {2, {1.9}}, {3, {2}}}, b{{1, {1}}, {2, {1.2}}};
    const JobMix mix = elastic_mix({{0, 4, b}, {0, 10, a}});
    const Fleet fleet = fleet_of({3});
    // The third GPU saves B 4 - 4/1.2 = 0.67 s and A 10 - 10/1.9 = 4.7 s. B ends at 4, A has 2.4
    // left and all: 2 steps/s.
    check_ends(run(mix, fleet, find_rules("ideal"), "marginal_gain"), {4, 5.2});
    // Of two with one GPU the first to come grows: B ends at 10/3, A has 20/3 left: 10/3 s.
    check_ends(run(mix, fleet, find_rules("ideal"), "equal_gpus"), {10.0 / 3, 20.0 / 3});
  }

  TEST_CASE("bounds hold, weights count, and who cannot grow leaves GPUs to the others") {
    // Eight GPUs: A may have 1 to 2, B 1 to 8, C two of them and no other number.
    const Sizes a{{1, {1}}, {2, {2}}}, c{{2, {1}}};
    const Sizes b{{1, {1}}, {2, {2}}, {4, {4}}, {8, {8}}};
    const JobMix mix = elastic_mix({{0, 4, a}, {0, 16, b}, {0, 2, c}});
    // A 2, B 4, C 2: all GPUs. A and C end at 2; B has 8 left, and 8 GPUs: 1 s.
    const Schedule schedule = run(mix, fleet_of({8}), find_rules("ideal"), "equal_gpus");
    check_ends(schedule, {2, 3, 2});
    // Three times the weight: of six GPUs one has 4 where the other has 2.
    JobMix weighted = elastic_mix({{0, 8, b}, {0, 8, b}});
    weighted.jobs[1].weight = 3;
    // Second: 8 / 4 = 2 s. First has done 4 by then; of six GPUs it has 4: 1 s.
    check_ends(run(weighted, fleet_of({6}), find_rules("ideal"), "equal_gpus"), {3, 2});
  }

  TEST_CASE("where least sizes do not fit, the later wait, or the longer") {
    const Sizes sizes{{2, {2}}, {4, {4}}};
    const JobMix mix = elastic_mix({{0, 20, sizes}, {0, 4, sizes}});
    // Two GPUs in all, and what is stated is 2: one after the other.
    check_ends(run(mix, fleet_of({2}), find_rules("ideal"), "equal_gpus"), {10, 12});
    check_ends(run(mix, fleet_of({2}), find_rules("ideal"), "marginal_gain"), {12, 2});
  }

  TEST_CASE("shares over sizes: fair, short and fast, by hand") {
    const Sizes sublinear{{1, {1}}, {2, {1.5}}}, linear{{1, {1}}, {2, {2}}}, one{{1, {1}}};
    // Two alike on two GPUs: one each is fairer than both in turns, 0.75. Two rounds of 360 s.
    check_ends(run(elastic_mix({{0, 720, sublinear}, {0, 720, sublinear}}), fleet_of({2}),
                   find_rules("ideal"), "max_min"),
               {720, 720});
    // Alone it has both: 1080 / 1.5.
    check_ends(
        run(elastic_mix({{0, 1080, sublinear}}), fleet_of({2}), find_rules("ideal"), "max_min"),
        {720});
    // The long job has its one GPU all the time, the other two end the short one early: 300 / 2.
    check_ends(run(elastic_mix({{0, 300, linear}, {0, 600, one}}), fleet_of({3}),
                   find_rules("ideal"), "min_makespan"),
               {150, 600});
    // 1 + 0.8 steps/s are more than 1.5; 1 + 0.4 are not: the second waits for the round to end.
    const Sizes slow{{1, {0.8}}}, slower{{1, {0.4}}};
    check_ends(run(elastic_mix({{0, 540, sublinear}, {0, 288, slow}}), fleet_of({2}),
                   find_rules("ideal"), "max_throughput"),
               {480, 360});
    check_ends(run(elastic_mix({{0, 540, sublinear}, {0, 144, slower}}), fleet_of({2}),
                   find_rules("ideal"), "max_throughput"),
               {360, 720});
  }

  TEST_CASE("cost counts the GPUs that a size holds") {
    // 1.5 steps/s of two GPUs are 0.75 per GPU, 1 of one: the second GPU is not worth its dollars.
    const JobMix mix = elastic_mix({{0, 360, {{1, {1}}, {2, {1.5}}}}});
    const Fleet fleet = load_fleet("group { count: 2 gpu: 'a' usd_per_gpu_hour: 1 }", "test");
    check_ends(run(mix, fleet, find_rules("ideal"), "cost"), {360});
  }

  TEST_CASE("policies that do not resize give every gang what its file states") {
    for (const std::string policy : {"fifo", "srtf", "las", "max_min_blind", "allox"}) {
      CAPTURE(policy);
      const JobMix mix = elastic_mix({{0, 100, {{1, {1}}, {2, {2}}}}});
      const Schedule schedule = run(mix, fleet_of({4}), find_rules("ideal"), policy);
      check_ends(schedule, {100});
      CHECK(schedule.jobs[0].gpus == 1);
    }
  }

  TEST_CASE("work is conserved and no GPU has two gangs, whatever policy, rules and placement") {
    for (const std::string& id : rules_ids()) {
      for (const std::string& policy : usual_policies()) {
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
          CAPTURE(id);
          CAPTURE(policy);
          CAPTURE(seed);
          const std::size_t types = 1 + seed % 2;
          const JobMix mix = random_elastic_mix(seed, 30, types);
          const Fleet fleet = load_fleet(types == 1 ? "group { count: 2 gpus: 4 gpu: 'a' }"
                                                    : "group { count: 2 gpus: 4 gpu: 'a' } "
                                                      "group { count: 3 gpus: 2 gpu: 'b' }",
                                         "test");
          Rules rules = find_rules(id);
          constexpr Placement kPlacements[] = {Placement::Pool, Placement::Machines,
                                               Placement::Nearest, Placement::Nearest};
          rules.placement = kPlacements[seed];
          const Schedule schedule = run(mix, fleet, rules, policy);
          double busy = 0;
          for (std::uint32_t j = 0; j < mix.jobs.size(); ++j) {
            const JobHistory& job = schedule.jobs[j];
            const JobKind& kind = mix.kind_of({j});
            REQUIRE(job.end.has_value());
            CHECK(job.starts == job.preemptions + 1);
            CHECK(job.resizes <= job.preemptions);
            double fastest = 0, slowest = 1e30;
            const auto consider = [&](const std::vector<double>& rates) {
              for (const double rate : rates) {
                fastest = std::max(fastest, rate);
                slowest = std::min(slowest, rate);
              }
            };
            consider(kind.rates);
            for (const GangSize& size : kind.sizes) consider(size.rates);
            const double worked = (job.served.in_seconds() - job.overhead).in_s();
            const double steps = mix.jobs[j].steps * rules.run_time_factor;
            CHECK(worked >= steps / fastest - 1e-3);
            if (rules.start_charge != StartCharge::EveryDecision)
              CHECK(worked <= steps / slowest + 1e-3);
            busy += job.gpu_s;
          }
          double by_type = 0;
          for (const double gpu_s : schedule.busy_gpu_s) by_type += gpu_s;
          CHECK(busy == doctest::Approx(by_type));
          for (const Residence& residence : schedule.residences) {
            const JobKind& kind = mix.kind_of(residence.job);
            CHECK((residence.gpus == kind.gpus || kind.size_of(residence.gpus) != nullptr));
          }
          check_capacity(fleet, schedule);
          check_machines(fleet, schedule);
          check_no_job_twice(schedule);
        }
      }
    }
  }

  TEST_CASE("the level of shares over sizes is that of a program with a variable per job") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      JobMix mix = random_elastic_mix(100 + seed, 8, 2);
      for (QueuedJob& job : mix.jobs) job.submit = Time{};
      mix.jobs[1].kind = mix.jobs[0].kind;  // alike
      const Fleet fleet = fleet_of({5, 4});
      const Rules& rules = find_rules("ideal");
      const Progress progress(mix, fleet, rules);
      std::vector<JobId> jobs;
      for (std::uint32_t j = 0; j < mix.jobs.size(); ++j) jobs.push_back({j});
      const auto worth = [&](JobId job, int gpus, std::uint32_t t) {
        const JobKind& kind = mix.kind_of(job);
        const double equal =
            (kind.rates[0] * fleet.types[0].gpus + kind.rates[1] * fleet.types[1].gpus) /
            fleet.total_gpus() / kind.gpus;
        return kind.rate(gpus, {t}) / equal;
      };
      LinearProgram lp;
      const std::size_t z = lp.add_variable(1);
      std::vector<std::vector<LinearProgram::Term>> used(2);
      for (const JobId job : jobs) {
        std::vector<LinearProgram::Term> gain{{z, -1}}, time;
        const JobKind& kind = mix.kind_of(job);
        for (std::uint32_t t = 0; t < 2; ++t) {
          std::vector<int> sizes;
          for (const GangSize& size : kind.sizes) sizes.push_back(size.gpus);
          if (sizes.empty()) sizes.push_back(kind.gpus);
          for (const int gpus : sizes) {
            const std::size_t x = lp.add_variable(0);
            gain.push_back({x, worth(job, gpus, t)});
            time.push_back({x, 1});
            used[t].push_back({x, static_cast<double>(gpus)});
          }
        }
        lp.add_row(std::move(gain), 0, LinearProgram::kInfinity);
        lp.add_row(std::move(time), 0, 1);
      }
      for (std::size_t t = 0; t < 2; ++t) lp.add_row(std::move(used[t]), 0, fleet.types[t].gpus);
      const double best = lp.maximize()->value;

      const Shares shares = make_max_min_sized({})->divide(progress, jobs);
      std::vector<double> level(jobs.size()), time(jobs.size()), held(2);
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        for (std::uint32_t t = 0; t < 2; ++t) {
          const double x = shares.at(j, {t});
          level[j] += x * worth(jobs[j], mix.gpus_of(jobs[j]), t);
          time[j] += x;
          held[t] += x * mix.gpus_of(jobs[j]);
        }
      }
      for (const SizedShare& sized : shares.sized) {
        for (std::uint32_t t = 0; t < 2; ++t) {
          level[sized.job] += sized.of_type[t] * worth(jobs[sized.job], sized.gpus, t);
          time[sized.job] += sized.of_type[t];
          held[t] += sized.of_type[t] * sized.gpus;
        }
      }
      CHECK(*std::min_element(level.begin(), level.end()) == doctest::Approx(best).epsilon(1e-6));
      CHECK(*std::max_element(time.begin(), time.end()) <= 1 + 1e-6);
      for (std::size_t t = 0; t < 2; ++t) CHECK(held[t] <= fleet.types[t].gpus + 1e-6);
    }
  }

  TEST_CASE("what cannot run is refused in one line") {
    // Four stated, two GPUs there: a policy that resizes has a size that fits, fifo has not.
    const JobMix mix = elastic_mix({{0, 10, {{4, {4}}, {2, {2}}}}});
    CHECK_THROWS_AS((void)run(mix, fleet_of({2}), find_rules("ideal"), "fifo"), InputError);
    check_ends(run(mix, fleet_of({2}), find_rules("ideal"), "equal_gpus"), {5});
    CHECK_THROWS_AS((void)run(mix, fleet_of({1}), find_rules("ideal"), "equal_gpus"), InputError);
  }
}
