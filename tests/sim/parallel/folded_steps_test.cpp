#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/parallel/data_parallel.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/sim/layered_network.hpp"
#include "tests/sim/random_cluster.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using test::Hardware;
using test::Layer;
using test::LayeredNetwork;

/// Weights of a few bytes to some hundred megabytes, layers of 0.05 to 5 ms.
std::vector<Layer> random_layers(Random& random, std::size_t count) {
  std::vector<Layer> layers;
  const auto up_to = [&](double most) { return Seconds(most * random.uniform()); };
  for (std::size_t i = 0; i < count; ++i) {
    const auto elements = static_cast<std::int64_t>(std::exp(18 * random.uniform())) + 1;
    layers.push_back({.elements = elements,
                      .forward = 0.05_ms + up_to(2e-3),
                      .backward = 0.05_ms + up_to(5e-3),
                      .update = 1.0_us + up_to(1e-4)});
  }
  return layers;
}

/// A data-parallel job on a fabric: the same layers on every GPU, each model of GPU at a pace of
/// its own.
class RandomJob {
 public:
  RandomJob(const Fabric& fabric, const StrategyProfile& strategy, Random& random)
      : request_{.fabric = fabric, .strategy = strategy, .kinds = {}, .kind_of = {}, .host = {}} {
    std::vector<Layer> layers = random_layers(random, 1 + random.below(6));
    std::vector<std::pair<std::string, double>> known;  // kinds: GPU and compute factor
    for (const Rank rank : all_ranks(fabric)) {
      const GpuSpec& gpu = fabric.gpu_of(rank);
      const double factor = fabric.group_of(fabric.node_of(rank)).compute_time_factor;
      const std::pair key(gpu.id, factor);
      auto at = std::find(known.begin(), known.end(), key);
      if (at == known.end()) {
        for (Layer& layer : layers) layer.backward += Seconds(1e-3 * random.uniform());
        networks_.emplace_back(layers);
        request_.kinds.push_back(networks_.back().kind(gpu, factor));
        at = known.insert(at, key);
      }
      request_.kind_of.push_back(static_cast<std::uint32_t>(at - known.begin()));
    }
    request_.sample_sd = random.below(2) == 0 ? 0 : 0.25;
  }
  RandomJob(const RandomJob&) = delete;  // the request refers to the networks
  RandomJob& operator=(const RandomJob&) = delete;

  [[nodiscard]] DataParallelStep run(bool fold) {
    request_.fold = fold;
    return simulate_data_parallel(request_);
  }

 private:
  std::deque<LayeredNetwork> networks_;
  DataParallelRequest request_;
};

/// Ranks that may stand for others: same machine, GPU and pace, beginning together; the others each
/// for itself.
std::size_t num_distinct(const Fabric& fabric) {
  std::set<std::tuple<std::string, std::string, double>> alike;
  std::size_t jittered = 0;
  for (const Rank rank : all_ranks(fabric)) {
    const FabricNodeId node = fabric.node_of(rank);
    const ClusterGroup& group = fabric.group_of(node);
    if (group.start_jitter > Seconds(0)) {
      ++jittered;
    } else {
      alike.emplace(fabric.machine_of(node).id, fabric.gpu_of(rank).id, group.compute_time_factor);
    }
  }
  return alike.size() + jittered;
}

void check_same(const DataParallelStep& folded, const DataParallelStep& all) {
  CHECK(folded.step_time.in_s() == all.step_time.in_s());
  CHECK(folded.parts.compute.in_s() == all.parts.compute.in_s());
  CHECK(folded.parts.communication.in_s() == all.parts.communication.in_s());
  CHECK(folded.parts.host_update.in_s() == all.parts.host_update.in_s());
  CHECK(folded.parts.stragglers.in_s() == all.parts.stragglers.in_s());
  CHECK(folded.communication_busy.in_s() == all.communication_busy.in_s());
  CHECK(folded.exposed == all.exposed);
  CHECK(folded.num_buckets == all.num_buckets);
}

TEST_SUITE_BEGIN("sim/parallel/folded_steps");

TEST_CASE("whole steps on random clusters are the same folded, and nobody unlike is folded") {
  const Hardware hardware;
  Random random(41);
  int folding = 0, jittered = 0;
  for (const std::string& id : strategy_ids()) {
    if (find_strategy(id).replicas == Replicas::Python) continue;  // replicas_test.cpp
    for (int round = 0; round < 12; ++round) {
      CAPTURE(id);
      CAPTURE(round);
      const Fabric fabric = hardware.build(test::random_cluster(random, round % 3 == 2));
      RandomJob job(fabric, find_strategy(id), random);
      const DataParallelStep folded = job.run(true), all = job.run(false);
      check_same(folded, all);
      CHECK(folded.ranks_simulated == num_distinct(fabric));
      CHECK(all.ranks_simulated == fabric.num_ranks());
      folding += folded.ranks_simulated < fabric.num_ranks();
      jittered += folded.ranks_simulated > 8;
    }
  }
  CHECK(folding > 100);
  CHECK(jittered > 20);
}

TEST_CASE("a rank begins its next step with its own updates, whatever other kinds of rank do") {
  const Hardware hardware;
  // Three of these 200 clusters told the difference while all waited for the last rank's.
  for (std::uint64_t seed = 100; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Fabric fabric = hardware.build(test::random_cluster(random, seed % 3 == 2));
    RandomJob job(fabric, find_strategy("kvstore_device"), random);
    const DataParallelStep folded = job.run(true), all = job.run(false);
    check_same(folded, all);
  }
}

TEST_CASE("a thousand ranks with one slow node: two stand for all, under every strategy") {
  const Hardware hardware;
  const Fabric fabric = hardware.build(test::thousand_with_a_slow_node());
  REQUIRE(fabric.num_ranks() == 1000);
  Random random(43);
  for (const std::string& id : strategy_ids()) {
    if (find_strategy(id).replicas == Replicas::Python) continue;  // replicas_test.cpp
    CAPTURE(id);
    RandomJob job(fabric, find_strategy(id), random);
    const DataParallelStep folded = job.run(true), all = job.run(false);
    CHECK(folded.ranks_simulated == 2);
    CHECK(all.ranks_simulated == 1000);
    check_same(folded, all);
  }
}

TEST_CASE("a jittered start is made up for by the first communication") {
  const Hardware hardware;
  ClusterSpec spec = uniform_cluster("dgx1_v100", 8, 2);
  Random random(47);
  const Fabric calm = hardware.build(spec);
  spec.groups[0].start_jitter = 1.0_ms;
  const Fabric jittered = hardware.build(spec);
  for (const std::string& id : strategy_ids()) {
    if (find_strategy(id).replicas == Replicas::Python) continue;  // replicas_test.cpp
    CAPTURE(id);
    Random same = random;
    const Seconds together = RandomJob(calm, find_strategy(id), random).run(true).step_time;
    const DataParallelStep apart = RandomJob(jittered, find_strategy(id), same).run(true);
    CHECK(apart.ranks_simulated == 16);
    CHECK(apart.step_time.in_us() == doctest::Approx(together.in_us()).epsilon(1e-6));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
