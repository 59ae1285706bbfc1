#include "sim/plan/schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/plan/failure_draw.hpp"
#include "sim/plan/progress.hpp"
#include "sim/plan/round_ledger.hpp"
#include "sim/plan/summary.hpp"
#include "tests/sim/plan/schedule_checks.hpp"
#include "tests/sim/plan/small_mix.hpp"

using namespace tracecast;
using namespace tracecast::plan;
using namespace tracecast::test;

TEST_SUITE("sim/plan/schedule") {
  TEST_CASE("srtf preempts, fifo waits: a schedule by hand") {
    // One GPU. A: 10 s at 0. B: 3 s at 2. C: 4 s at 3.
    const JobMix mix = mix_of({{0, 1, {10}}, {2, 1, {3}}, {3, 1, {4}}});
    const Fleet fleet = fleet_of({1});
    CHECK(ends_s(run(mix, fleet, find_rules("ideal"), "fifo")) == std::vector{10.0, 13.0, 17.0});
    // B runs 2 to 5, C 5 to 9, A has 8 left: 17.
    CHECK(ends_s(run(mix, fleet, find_rules("ideal"), "srtf")) == std::vector{17.0, 5.0, 9.0});
  }

  TEST_CASE("the first in line holds up the others in fifo and not in srsf") {
    // Two GPUs. A: 1 GPU, 10 s. B: 2 GPUs, 5 s. C: 1 GPU, 20 s.
    const JobMix mix = mix_of({{0, 1, {10}}, {0, 2, {5}}, {0, 1, {20}}});
    const Fleet fleet = fleet_of({2});
    CHECK(ends_s(run(mix, fleet, find_rules("ideal"), "fifo")) == std::vector{10.0, 15.0, 35.0});
    // Remaining service 10, 10, 20: A and then C fit beside each other; at 10 s B and C have 10
    // each and B came before in the order left, so it gets both GPUs: 15; C has 10 left: 25.
    CHECK(ends_s(run(mix, fleet, find_rules("ideal"), "srsf")) == std::vector{10.0, 15.0, 25.0});
  }

  TEST_CASE("a start costs what the rules say and no more") {
    Rules rules = find_rules("ideal");
    rules.start_charge = StartCharge::WhenStarted;
    JobMix mix = mix_of({{0, 1, {10}}, {2, 1, {3}}});
    for (JobKind& kind : mix.kinds) kind.start_cost = Seconds(1);
    const Schedule schedule = run(mix, fleet_of({1}), rules, "srtf");
    // A: start 0 to 1, works 1 to 2. B: start 2 to 3, works to 6. A: start 6 to 7, 9 left: 16.
    CHECK(ends_s(schedule) == std::vector{16.0, 6.0});
    CHECK(schedule.jobs[0].overhead.in_s() == doctest::Approx(2));
    CHECK(schedule.jobs[0].preemptions == 1);
    CHECK(schedule.jobs[1].overhead.in_s() == doctest::Approx(1));
  }

  TEST_CASE("a job alone takes its stated time under every policy and every rule") {
    const double alone_s = 1234.5;
    const JobMix mix = mix_of({{0, 1, {alone_s}}});
    for (const std::string& policy : usual_policies()) {
      CAPTURE(policy);
      CHECK(ends_s(run(mix, fleet_of({1}), find_rules("ideal"), policy))[0] ==
            doctest::Approx(alone_s));
    }
    Rules rules = find_rules("ideal");
    rules.run_time_factor = 1.015;
    CHECK(ends_s(run(mix, fleet_of({1}), rules, "srtf"))[0] == doctest::Approx(alone_s * 1.015));
  }

  TEST_CASE("work is conserved, GPUs are not shared, under every policy and every rule") {
    for (const std::string& id : rules_ids()) {
      for (const std::string& policy : usual_policies()) {
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
          CAPTURE(id);
          CAPTURE(policy);
          CAPTURE(seed);
          const std::size_t types = 1 + seed % 3;
          const JobMix mix = random_mix(seed, 40, types);
          const Fleet fleet = types == 1   ? fleet_of({8})
                              : types == 2 ? fleet_of({4, 6})
                                           : fleet_of({4, 4, 5});
          const Rules& rules = find_rules(id);
          Rules pooled = rules;  // machines of one GPU hold no gangs
          pooled.placement = Placement::Pool;
          const Schedule schedule = run(mix, fleet, pooled, policy);
          double busy = 0;
          for (std::size_t j = 0; j < mix.jobs.size(); ++j) {
            const JobHistory& job = schedule.jobs[j];
            REQUIRE(job.end.has_value());
            CHECK(*job.first_start >= mix.jobs[j].submit);
            CHECK(job.starts == job.preemptions + 1);
            // Steps done over the rates of the types it had lie between the fastest and the slowest
            // way.
            const JobKind& kind = mix.kind_of({static_cast<std::uint32_t>(j)});
            const double slowest = *std::min_element(kind.rates.begin(), kind.rates.end());
            const double worked = (job.served.in_seconds() - job.overhead).in_s();
            CHECK(worked >=
                  pooled.run_time_factor / mix.best_rate({static_cast<std::uint32_t>(j)}) - 1e-3);
            if (pooled.start_charge != StartCharge::EveryDecision)
              CHECK(worked <= pooled.run_time_factor / slowest + 1e-3);
            busy += job.gpu_s;
          }
          double by_type = 0;
          for (const double gpu_s : schedule.busy_gpu_s) by_type += gpu_s;
          CHECK(busy == doctest::Approx(by_type));
          check_no_job_twice(schedule);
          check_capacity(fleet, schedule);
        }
      }
    }
  }

  TEST_CASE("preemption loses what a start costs and no more") {
    constexpr double kStart = 20;
    for (const bool in_rounds : {false, true}) {
      Rules rules = find_rules(in_rounds ? "shockwave" : "ideal");
      rules.start_charge = StartCharge::WhenStarted;
      for (const std::string& policy : usual_policies()) {
        for (std::uint64_t seed = 10; seed < 16; ++seed) {
          CAPTURE(in_rounds);
          CAPTURE(policy);
          CAPTURE(seed);
          JobMix mix = random_mix(seed, 40, 1);
          for (JobKind& kind : mix.kinds) kind.start_cost = Seconds(kStart);
          const Schedule schedule = run(mix, fleet_of({6}), rules, policy);
          for (std::uint32_t j = 0; j < mix.jobs.size(); ++j) {
            const JobHistory& job = schedule.jobs[j];
            CHECK(job.overhead.in_s() <= kStart * job.starts + 1e-6);
            CHECK((job.served.in_seconds() - job.overhead).in_s() ==
                  doctest::Approx(1 / mix.best_rate({j})).epsilon(1e-6));
            // A whole start is paid unless the job is moved before it is over.
            if (job.preemptions == 0) CHECK(job.overhead.in_s() == doctest::Approx(kStart));
          }
        }
      }
    }
  }

  TEST_CASE("no machine has more gangs than GPUs, whatever the policy") {
    Rules rules = find_rules("ideal");
    rules.placement = Placement::Machines;
    const Fleet fleet = load_fleet("group { count: 3 gpus: 4 gpu: 'a' }", "test");
    for (const std::string& policy : usual_policies()) {
      for (std::uint64_t seed = 20; seed < 24; ++seed) {
        CAPTURE(policy);
        CAPTURE(seed);
        const JobMix mix = random_mix(seed, 40, 1);
        const Schedule schedule = run(mix, fleet, rules, policy);
        check_machines(fleet, schedule);
        check_no_job_twice(schedule);
      }
    }
  }

  TEST_CASE("the same input gives the same schedule") {
    const JobMix mix = random_mix(7, 60, 2);
    const Fleet fleet = fleet_of({4, 4});
    for (const std::string& policy : usual_policies()) {
      CAPTURE(policy);
      Rules rules = find_rules("gavel");
      const Schedule a = run(mix, fleet, rules, policy), b = run(mix, fleet, rules, policy);
      CHECK(ends_s(a) == ends_s(b));
      CHECK(a.residences.size() == b.residences.size());
    }
  }

  TEST_CASE("a failure costs no more than the work since the last checkpoint and the restart") {
    const double alone_s = 20000;
    for (const std::string policy : {"fifo", "max_min", "allox"}) {
      for (const bool in_machines : {false, true}) {
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
          CAPTURE(policy);
          CAPTURE(in_machines);
          CAPTURE(seed);
          Fleet fleet = fleet_of({2});
          fleet.failures = FleetFailures{Seconds(4000), Seconds(500), Seconds(30), {}};
          Rules rules = find_rules("ideal");
          if (in_machines) rules.placement = Placement::Machines;
          ScheduleOptions options;
          options.policy = policy;
          options.seed = seed;
          const JobMix mix = mix_of({{0, policy == "allox" ? 1 : 2, {alone_s}}});
          const Schedule schedule = simulate(mix, fleet, rules, options);
          REQUIRE(schedule.failures > 0);
          const double end = ends_s(schedule)[0];
          const auto failures = static_cast<double>(schedule.failures);
          CHECK(end >= alone_s);
          CHECK(end <= alone_s + failures * (500 + 30) + 1e-3);
          const JobHistory& job = schedule.jobs[0];
          CHECK((job.served.in_seconds() - job.overhead).in_s() == doctest::Approx(alone_s));
          CHECK((policy == "allox" || end > alone_s));
        }
      }
    }
  }

  TEST_CASE("a failure throws a job back to its last checkpoint, never behind its start") {
    struct Row {
      const char* what;
      double start_s, at_s, lost_s;
    };
    for (const Row& row : {Row{"before the first checkpoint", 0, 300, 300},
                           {"just after the first", 0, 510, 10},
                           {"before the second", 0, 900, 400},
                           {"50 s after it has begun", 250, 300, 50}}) {
      CAPTURE(row.what);
      const JobMix mix = mix_of({{0, 1, {2000}}});
      const Fleet fleet = fleet_of({1});
      const Rules rules = find_rules("ideal");
      Progress progress(mix, fleet, rules);
      const auto at = [](double seconds) { return engine::to_ticks<Time>(Seconds(seconds)); };
      progress.start(JobId{0}, TypeId{0}, 1, {{0, 1}}, Seconds(row.start_s));
      progress.advance_to(at(row.at_s));
      progress.lose_work(JobId{0}, Seconds(500), Seconds(30));
      // Of 2000 s: what was not saved is to be done again, after a restart of 30.
      const double left_s = 2000 - (row.at_s - row.start_s) + row.lost_s;
      CHECK(progress.left_steps(JobId{0}) * 2000 == doctest::Approx(left_s));
      CHECK(progress.foreseen_end(JobId{0}).in_seconds().in_s() ==
            doctest::Approx(row.at_s + 30 + left_s));
    }
  }

  TEST_CASE("a GPU that fails strikes the gang on it and no other") {
    // Machine 0: two GPUs of the first gang, one of the second, one idle; machine 1: four of the
    // third.
    const Fleet fleet = load_fleet("group { count: 2 gpus: 4 gpu: 'a' }", "test");
    const std::vector<std::vector<HeldGpus>> held{{{0, 2}}, {{0, 1}}, {{1, 4}}};
    const auto struck = [&](const Failure& failure, bool machines_count) {
      FailureHits hits(fleet, failure);
      std::vector<int> gangs;
      for (int g = 0; g < 3; ++g) {
        const bool is_hit = machines_count ? hits.strikes(held[static_cast<std::size_t>(g)], 0)
                                           : hits.strikes({}, g == 2 ? 4 : 2 - g);
        if (is_hit) gangs.push_back(g);
      }
      return gangs;
    };
    CHECK(struck({true, 0, 1}, true) == std::vector{0});
    CHECK(struck({true, 0, 2}, true) == std::vector{1});
    CHECK(struck({true, 0, 3}, true).empty());
    CHECK(struck({true, 0, 6}, true) == std::vector{2});
    CHECK(struck({false, 0, 6}, true) == std::vector{0, 1});
    // Where machines do not count the gangs hold GPUs 0 to 1, 2, and 3 to 6.
    CHECK(struck({true, 0, 2}, false) == std::vector{1});
    CHECK(struck({true, 0, 3}, false) == std::vector{2});
    CHECK(struck({true, 0, 7}, false).empty());
  }

  TEST_CASE("machines and GPUs fail as often as their rates say, together and each") {
    // Ten machines of 1000 s, forty GPUs of 8000 s: 0.01 and 0.005 failures per second.
    Fleet fleet = load_fleet("group { count: 10 gpus: 4 gpu: 'a' }", "test");
    fleet.failures = FleetFailures{Seconds(1000), Seconds(1), Seconds(1), Seconds(8000)};
    FailureDraw draw(fleet, 1);
    constexpr int kDraws = 20000;
    double waited_s = 0;
    int gpus = 0;
    for (int i = 0; i < kDraws; ++i) {
      waited_s += draw.wait().in_s();
      gpus += draw.what().is_gpu ? 1 : 0;
    }
    // Four standard deviations: 4 / sqrt(20000) of the mean, 4 sqrt(p (1 - p) / 20000) of the part.
    CHECK(waited_s / kDraws == doctest::Approx(1 / 0.015).epsilon(0.029));
    CHECK(static_cast<double>(gpus) / kDraws == doctest::Approx(1.0 / 3).epsilon(0.04));
  }

  TEST_CASE("gangs hold one machine or whole machines where machines count") {
    Rules rules = find_rules("ideal");
    rules.placement = Placement::Machines;
    const Fleet fleet = load_fleet("group { count: 2 gpus: 4 gpu: 'a' }", "test");
    // 3 + 3 GPUs leave one in each machine: a gang of 2 waits, although 2 GPUs are free.
    const JobMix mix = mix_of({{0, 3, {10}}, {0, 3, {20}}, {0, 2, {5}}, {0, 8, {1}}});
    const Schedule schedule = run(mix, fleet, rules, "fifo");
    CHECK(ends_s(schedule) == std::vector{10.0, 20.0, 15.0, 21.0});
    for (const Residence& residence : schedule.residences)
      CHECK(residence.held.size() == (residence.job.index == 3 ? 2 : 1));
  }

  TEST_CASE("a gang in more machines than it needs is as slow as measured, or as the rules say") {
    Rules rules = find_rules("nearest");
    rules.scattered_run_time_factor = 2;
    const Fleet fleet = load_fleet("group { count: 2 gpus: 4 gpu: 'a' }", "test");
    // 3 + 3 GPUs leave one in each machine: a gang of 2 has those, and takes twice its 5 s. One of
    // 8 needs both machines.
    JobMix mix = mix_of({{0, 3, {10}}, {0, 3, {20}}, {0, 2, {5}}, {0, 8, {1}}});
    Schedule schedule = run(mix, fleet, rules, "fifo");
    CHECK(ends_s(schedule) == std::vector{10.0, 20.0, 10.0, 21.0});
    CHECK(schedule.jobs[2].uncertainty == 1);
    CHECK(schedule.jobs[0].uncertainty + schedule.jobs[1].uncertainty +
              schedule.jobs[3].uncertainty ==
          0);
    check_machines(fleet, schedule);
    mix.kinds[2].scattered_rates = {1.0 / 7};
    CHECK(ends_s(run(mix, fleet, rules, "fifo")) == std::vector{10.0, 20.0, 7.0, 21.0});
    // In rounds, too: the last has all GPUs in the first, who has least left.
    rules.round = rules.shares_round = Seconds(100);
    CHECK(ends_s(run(mix, fleet, rules, "srtf"))[2] == doctest::Approx(107));
  }

  TEST_CASE("jobs end no earlier with fewer GPUs in all, under shares") {
    const JobMix mix = random_mix(3, 30, 1);
    double before = 0;
    for (const int gpus : {32, 8, 4}) {
      const std::vector<double> ends =
          ends_s(run(mix, fleet_of({gpus}), find_rules("ideal"), "max_min"));
      double mean = 0;
      for (const double end : ends) mean += end;
      CHECK(mean >= before);
      before = mean;
    }
  }

  TEST_CASE("of a job in phases a policy sees the epochs left at the pace of the moment") {
    // 2 epochs of 50 s, then 4 of 5 s.
    JobMix mix = mix_of({{0, 1, {120}}});
    mix.kinds[0].rates = {1};
    mix.jobs[0].steps = 120;
    mix.jobs[0].phases = {{100, 2, 1}, {20, 4, 8}};
    const Fleet fleet = fleet_of({1});
    Rules rules = find_rules("ideal");
    Progress progress(mix, fleet, rules);
    progress.start({0}, {0}, 1, {}, {});
    struct Row {
      double at_s, expected_left, counted, left_of_phase;
    };
    for (const Row& row : {Row{0, 6 * 50, 1, 100}, Row{50, 5 * 50, 1, 50}, Row{100, 4 * 5, 8, 20},
                           Row{110, 2 * 5, 8, 10}}) {
      CAPTURE(row.at_s);
      progress.advance_to(engine::to_ticks<Time>(Seconds(row.at_s)));
      CHECK(progress.expected_left({0}) == doctest::Approx(row.expected_left));
      CHECK(progress.counted({0}) == row.counted);
      CHECK(progress.left_of_phase({0}) == doctest::Approx(row.left_of_phase));
    }
    // It stops at 100 s, waits for the round of 120 s to end, and does the rest.
    rules.shares_round = Seconds(120);
    CHECK(ends_s(run(mix, fleet, rules, "max_min"))[0] == doctest::Approx(120));
    rules.restarts_between_phases = true;
    CHECK(ends_s(run(mix, fleet, rules, "max_min"))[0] == doctest::Approx(140));
    // The start in the second round costs what a start costs.
    rules.start_charge = StartCharge::WhenStarted;
    mix.kinds[0].start_cost = Seconds(10);
    CHECK(ends_s(run(mix, fleet, rules, "max_min"))[0] == doctest::Approx(150));
  }

  TEST_CASE("a round decided ahead keeps GPUs for who has gone and newcomers waiting") {
    // One GPU, rounds of 100 s, decided 50 s before. At 150 only A is there, so the round at 200 is
    // A's, which ends at 180. B, there since 160, has the one at 300. C comes at 360 when nobody is
    // left and begins with the next round.
    const JobMix mix = mix_of({{0, 1, {180}}, {160, 1, {30}}, {360, 1, {30}}});
    Rules rules = find_rules("ideal");
    rules.shares_round = Seconds(100);
    rules.decides_ahead = 0.5;
    CHECK(ends_s(run(mix, fleet_of({1}), rules, "max_min")) == std::vector{180.0, 330.0, 430.0});
  }

  TEST_CASE("largest gangs placed first move those that go on") {
    // Three GPUs, starts of 10 s, rounds of 100 s. A, B and C run; from 100 on D, which has two
    // GPUs and least left, and A.
    const JobMix mix = mix_of({{0, 1, {250}}, {0, 1, {1000}}, {0, 1, {1000}}, {50, 2, {80}}});
    JobMix costly = mix;
    for (JobKind& kind : costly.kinds) kind.start_cost = Seconds(10);
    Rules rules = find_rules("ideal");
    rules.round = rules.shares_round = Seconds(100);
    rules.start_charge = StartCharge::WhenStarted;
    rules.placement = Placement::Machines;
    rules.keeps_places = true;
    // A stays on the first GPU, D has the others: A has done 90 + 100 at 200.
    std::vector<double> ends = ends_s(run(costly, fleet_of({3}), rules, "srtf"));
    CHECK(ends[0] == doctest::Approx(260));
    CHECK(ends[3] == doctest::Approx(190));
    // D takes the first two, A starts again on the third: 90 + 90 at 200, and stays there.
    rules.places_largest_first = true;
    ends = ends_s(run(costly, fleet_of({3}), rules, "srtf"));
    CHECK(ends[0] == doctest::Approx(270));
    CHECK(ends[3] == doctest::Approx(190));
  }

  TEST_CASE("a job begins on idle GPUs as soon as its round has been decided on") {
    // One GPU, rounds of 100 s, decided 50 s before. A ends at 30, known at 50: B begins then, not
    // at 100.
    Rules rules = find_rules("ideal");
    rules.round = rules.shares_round = Seconds(100);
    rules.decides_ahead = 0.5;
    rules.placement = Placement::Machines;
    JobMix mix = mix_of({{0, 1, {30}}, {0, 1, {60}}});
    CHECK(ends_s(run(mix, fleet_of({1}), rules, "srtf")) == std::vector{30.0, 160.0});
    rules.starts_early = true;
    CHECK(ends_s(run(mix, fleet_of({1}), rules, "srtf")) == std::vector{30.0, 110.0});
    // A start of 10 s is paid then, too; A's is in the first round.
    rules.start_charge = StartCharge::WhenStarted;
    for (JobKind& kind : mix.kinds) kind.start_cost = Seconds(10);
    const Schedule schedule = run(mix, fleet_of({1}), rules, "srtf");
    CHECK(ends_s(schedule) == std::vector{40.0, 120.0});
    CHECK(schedule.jobs[1].overhead.in_s() == doctest::Approx(10));
    CHECK(schedule.jobs[1].served.in_seconds().in_s() == doctest::Approx(70));
  }

  TEST_CASE("a stay that is booked when it ends counts whole, whatever began anew meanwhile") {
    // Two jobs with half the time each; rounds of 100 s, of which half is on the account from the
    // start.
    Ledger ledger(1, Seconds(100));
    ledger.add({0});
    ledger.add({1});
    Shares shares(2, 1);
    shares.at(0, {0}) = shares.at(1, {0}) = 0.5;
    ledger.assign(shares);
    ledger.reset(0);
    ledger.run(0, {0}, 100);
    CHECK(ledger.priority(0, {0}) == doctest::Approx(0.5 / (150.0 / 200)));
    // What has passed before the new period does not count while the stay goes on ...
    ledger.reset(100);
    ledger.run(0, {0}, 100);
    CHECK(ledger.priority(0, {0}) == doctest::Approx(0.5 / (150.0 / 200)));
    // ... and counts when it is over.
    ledger.book(0, {0}, 200);
    CHECK(ledger.priority(0, {0}) == doctest::Approx(0.5 / (250.0 / 300)));
    CHECK(ledger.priority(1, {0}) == doctest::Approx(0.5 / (50.0 / 300)));
  }

  TEST_CASE("who came after the shares were divided has no claim before all who have a share") {
    // Two types, two jobs with half of each; rounds of 100 s, of which half is on the account from
    // the start.
    Ledger ledger(2, Seconds(100));
    ledger.add({0});
    ledger.add({1});
    ledger.reset(0);
    Shares shares(2, 2);
    for (const std::size_t job : {0, 1})
      for (const std::uint32_t type : {0U, 1U}) shares.at(job, {type}) = 0.5;
    ledger.assign(shares);
    for (const double ran_s : {0.0, 100.0, 1e6}) {
      if (ran_s > 0) ledger.record(0, {0}, ran_s);
      ledger.add({7});
      const std::size_t new_job = *ledger.find({7});
      for (const std::uint32_t type : {0U, 1U}) {
        CAPTURE(type);
        CHECK(ledger.entity(new_job).is_new);
        CHECK(ledger.priority(new_job, {type}) == 0);
        CHECK(ledger.priority(0, {type}) > 0);
        CHECK(ledger.priority(1, {type}) > 0);
      }
      ledger.remove_done([](JobId job) { return job == JobId{7}; });
    }
    // With the next shares it has one, and half a round of the time given like everybody: (1/3) /
    // (50 / 150).
    ledger.add({7});
    ledger.reset(0);
    Shares three(3, 2);
    for (const std::size_t job : {0, 1, 2}) three.at(job, {0}) = 1.0 / 3;
    ledger.assign(three);
    CHECK_FALSE(ledger.entity(2).is_new);
    CHECK(ledger.priority(2, {0}) == doctest::Approx(1));
    CHECK(ledger.priority(2, {1}) == 0);
  }

  TEST_CASE("a newcomer without a share runs when those that have one leave a GPU") {
    // One GPU, rounds of 100 s from 10 on, shares no sooner than 1,000 s after the last. A has all
    // of the GPU until 310; B, there since 50, follows.
    Rules rules = find_rules("ideal");
    rules.shares_round = Seconds(100);
    rules.least_between_decisions = Seconds(1000);
    const JobMix mix = mix_of({{10, 1, {300}}, {50, 1, {100}}});
    CHECK(ends_s(run(mix, fleet_of({1}), rules, "max_min")) == std::vector{310.0, 410.0});
    // With a GPU more it begins with the next round.
    CHECK(ends_s(run(mix, fleet_of({2}), rules, "max_min")) == std::vector{310.0, 210.0});
  }

  TEST_CASE("two jobs share GPUs only where asked, and as the rates say") {
    JobMix mix = mix_of({{0, 1, {1000}}, {0, 1, {1000}}});
    // Beside each other each keeps 0.8 of its speed.
    mix.shared.push_back({{0}, {1}, {0}, 0.8e-3, 0.8e-3});
    ScheduleOptions options;
    options.policy = "max_min";
    options.space_sharing = true;
    const Schedule shared = simulate(mix, fleet_of({1}), find_rules("ideal"), options);
    CHECK(ends_s(shared)[0] == doctest::Approx(1250));
    CHECK(ends_s(shared)[1] == doctest::Approx(1250));
    CHECK(shared.busy_gpu_s[0] == doctest::Approx(1250));
    options.space_sharing = false;
    const std::vector<double> apart =
        ends_s(simulate(mix, fleet_of({1}), find_rules("ideal"), options));
    // In turns of a round; who ends leaves the GPU idle until the round does.
    CHECK(std::max(apart[0], apart[1]) >= 2000);
    CHECK(std::max(apart[0], apart[1]) < 2000 + 360);
  }

  TEST_CASE("what cannot run is refused in one line") {
    const Rules& rules = find_rules("ideal");
    const JobMix mix = mix_of({{0, 4, {10}}});
    CHECK_THROWS_AS((void)run(mix, fleet_of({2}), rules, "fifo"), InputError);
    CHECK_THROWS_AS((void)run(mix, fleet_of({4}), rules, "fofo"), InputError);
    CHECK_THROWS_AS((void)run(mix, fleet_of({4}), rules, "deadline"), InputError);
    CHECK_THROWS_AS((void)run(mix, fleet_of({4}), rules, "cost"), InputError);
    CHECK_THROWS_AS((void)run(mix, fleet_of({4}), rules, "max_min_packed"), InputError);
    CHECK_THROWS_AS((void)run(mix, fleet_of({4}), rules, "srtf_packed"), InputError);
    // On a type where it cannot run it does not fit either.
    CHECK_THROWS_AS((void)run(mix_of({{0, 2, {0, 10}}}), fleet_of({8, 1}), rules, "fifo"),
                    InputError);
  }

  TEST_CASE("aliases of published tables name the same policies") {
    CHECK(find_policy("tiresias_l").name == "las");
    CHECK(find_policy("max_min_fairness").name == "max_min_blind");
    CHECK(find_policy("max_min_fairness_perf").name == "max_min");
    CHECK(find_policy("min_total_duration").name == "min_makespan");
    CHECK(find_policy("max_sum_throughput_perf").name == "max_throughput");
    CHECK(find_policy("max_min_packed").space_sharing);
    CHECK(find_policy("max_min_fairness_packed").name == "max_min");
  }

  TEST_CASE("p99 is element int(0.99 n) of the sorted completion times") {
    std::vector<SmallJob> jobs;
    for (int j = 0; j < 200; ++j) jobs.push_back({0, 1, {static_cast<double>(200 - j)}});
    const JobMix mix = mix_of(jobs);
    const Fleet fleet = fleet_of({200});
    const Schedule schedule = run(mix, fleet, find_rules("ideal"), "fifo");
    const Summary summary = summarize(mix, fleet, schedule, find_rules("ideal"), {});
    CHECK(summary.p99_jct.in_s() == 199);
    CHECK(summary.median_jct.in_s() == 100.5);
    CHECK(summary.mean_jct.in_s() == doctest::Approx(100.5));
    CHECK(summary.makespan.in_s() == 200);
    CHECK(summary.utilization == doctest::Approx(100.5 / 200));
  }
}
