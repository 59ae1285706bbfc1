#include "sim/plan/fleet.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "sim/plan/free_gpus.hpp"
#include "sim/plan/rules.hpp"

using namespace tracecast;
using namespace tracecast::plan;

TEST_SUITE("sim/plan/fleet") {
  TEST_CASE("groups of one word are one type") {
    const Fleet fleet = load_fleet(
        "group { count: 2 gpus: 8 gpu: 'v100' usd_per_gpu_hour: 2.5 } group { gpus: 4 gpu: 'p100' }"
        " group { count: 3 gpu: 'v100' }",
        "test");
    REQUIRE(fleet.types.size() == 2);
    CHECK(fleet.types[0].gpus == 19);
    CHECK(fleet.types[1].gpus == 4);
    CHECK(*fleet.types[0].usd_per_hour == 2.5);
    CHECK(fleet.machines.size() == 6);
    CHECK(fleet.total_gpus() == 23);
  }

  TEST_CASE("what is wrong with a fleet is said with its place") {
    for (const char* text :
         {"", "group { }", "group { gpu: 'a' count: 0 }", "group { gpu: 'a' gpus: -1 }",
          "group { gpu: 'a' usd_per_gpu_hour: -2 }", "grup { gpu: 'a' }",
          "group { gpu: 'a' count: 1000000 gpus: 1024 }",
          "group { gpu: 'a' } failures { restart_s: 5 }",
          "group { gpu: 'a' } failures { gpu_mtbf_hours: 0 checkpoint_interval_s: 5 }",
          "group { gpu: 'a' } failures { gpu_mtbf_hours: 10 }",
          "group { gpu: 'a' } failures { node_mtbf_hours: -1 checkpoint_interval_s: 5 }"}) {
      CAPTURE(text);
      CHECK_THROWS_AS((void)load_fleet(text, "test"), InputError);
    }
    CHECK_THROWS_AS((void)uniform_fleet(10, 4, ""), InputError);
    CHECK_THROWS_AS((void)uniform_fleet(0, 1, ""), InputError);
  }

  TEST_CASE("rules that ship state their sources, and unknown ones are refused") {
    for (const std::string& id : rules_ids()) CHECK(!find_rules(id).sources.empty());
    CHECK_THROWS_AS((void)find_rules("gavle"), InputError);
    for (const char* text :
         {"id: 'x'", "id: 'x' source: 'y' round_s: -5", "source: 'y'",
          "id: 'x' source: 'y' queue_limit_gpu_s: [5, 4]", "id: 'x' source: 'y' run_time_factor: 0",
          "id: 'x' source: 'y' allox_reach: 2",
          "id: 'x' source: 'y' scattered_run_time_factor: 0.5"}) {
      CAPTURE(text);
      CHECK_THROWS_AS((void)load_rules(text, "test"), InputError);
    }
  }

  TEST_CASE("a gang fits one machine, or whole idle ones and the rest in one more") {
    const Fleet fleet = load_fleet("group { count: 3 gpus: 4 gpu: 'a' }", "test");
    FreeGpus free(fleet, Placement::Machines);
    std::vector<HeldGpus> one, two, three;
    CHECK(free.take(3, {0}, one));
    CHECK(one.front().machine == 0);
    CHECK(!free.fits(10, {0}));  // needs two idle ones and 2 more
    CHECK(free.take(9, {0}, two));
    CHECK(two.size() == 3);
    CHECK(!free.take(1, {0}, three));
    free.give_back(9, {0}, two);
    CHECK(free.free() == 9);
    CHECK(free.take_again(9, {0}, two));
    CHECK(!free.take_again(9, {0}, two));
  }

  TEST_CASE("a gang has the machine with the least that suffices, or the fullest ones") {
    const Fleet fleet = load_fleet("group { count: 3 gpus: 4 gpu: 'a' }", "test");
    FreeGpus free(fleet, Placement::Nearest);
    const auto take = [&](int gpus) {
      std::vector<HeldGpus> held;
      CHECK(free.take(gpus, {0}, held));
      return held;
    };
    CHECK(take(2) == std::vector<HeldGpus>{{0, 2}});
    CHECK(take(3) == std::vector<HeldGpus>{{1, 3}});
    CHECK(take(2) == std::vector<HeldGpus>{{0, 2}});  // not the third machine
    CHECK(take(5) == std::vector<HeldGpus>{{2, 4}, {1, 1}});
    CHECK(!free.fits(1, {0}));
  }
}
