#include "sim/parallel/checkpoints.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

constexpr Seconds kDay(86400);

TEST_SUITE_BEGIN("sim/parallel/checkpoints");

TEST_CASE("short checkpoints follow Young's square root") {
  // 100 nodes of 1000 days: one failure in 10 days; 1 s to write: sqrt(2 x 864000) = 1314.5 s.
  const ClusterFailures failures{1000 * kDay, Seconds(1), Seconds(0)};
  const CheckpointPlan plan = plan_checkpoints(failures, 100);
  CHECK(plan.cluster_mtbf.in_s() == doctest::Approx(864000));
  CHECK(plan.interval.in_s() == doctest::Approx(std::sqrt(2 * 864000.0)).epsilon(0.002));
  // Lost: the write, 1 / 1314, and half an interval at each failure, 657 / 864000.
  CHECK(plan.useful_share == doctest::Approx(1 - 1 / 1314.5 - 657.0 / 864000).epsilon(1e-5));
}

TEST_CASE("writing that takes twice the time between failures leaves Daly's other case") {
  const ClusterFailures failures{Seconds(100), Seconds(250), Seconds(10)};
  CHECK(plan_checkpoints(failures, 1).interval == Seconds(100));
}

TEST_CASE("no other interval leaves more than Daly's, beyond his approximation") {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    const ClusterFailures failures{Seconds(1e5 * std::exp(4 * random.uniform())),
                                   Seconds(std::exp(5 * random.uniform())),
                                   Seconds(600 * random.uniform())};
    const auto nodes = static_cast<std::uint32_t>(1 + random.below(200));
    const CheckpointPlan plan = plan_checkpoints(failures, nodes);
    CAPTURE(nodes);
    CHECK(plan.useful_share > 0);
    CHECK(plan.useful_share < 1);
    const double most = plan.useful_share * (1 + 1e-3);
    for (const double factor : {0.3, 0.7, 0.9, 1.1, 1.5, 3.0}) {
      CHECK(useful_share(failures, nodes, factor * plan.interval) <= most);
    }
    CHECK(plan_checkpoints(failures, nodes + 1).useful_share < plan.useful_share);
  }
}

TEST_CASE("the share is that of a simulated machine") {
  // Work in segments; a failure loses the segment, and a restart that fails begins anew.
  const ClusterFailures failures{Seconds(3600), Seconds(60), Seconds(120)};
  const Seconds interval(900);
  Random random(5);
  const auto lifetime = [&] { return -3600 * std::log(1 - random.uniform()); };
  double clock = 0, useful = 0, left = lifetime();
  const auto lasts = [&](double seconds) {
    if (seconds <= left) {
      clock += seconds;
      left -= seconds;
      return true;
    }
    clock += left;
    left = lifetime();
    return false;
  };
  for (int segment = 0; segment < 200'000; ++segment) {
    while (!lasts(960)) {
      while (!lasts(120)) {
      }
    }
    useful += 900;
  }
  CHECK(useful / clock == doctest::Approx(useful_share(failures, 1, interval)).epsilon(0.005));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
