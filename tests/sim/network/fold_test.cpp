#include "sim/network/fold.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/engine/task_graph.hpp"
#include "sim/network/collective.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/sim/random_cluster.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using engine::Picoseconds;
using test::Hardware;
using test::random_cluster;

/// Steps of layers and all-reduces, as data-parallel training runs them: when each rank's last step
/// ends. Ranks that `classes` folds are one.
Picoseconds run_job(const Fabric& fabric, const RankClasses& classes, bool folded) {
  engine::TaskGraph graph;
  std::vector<engine::LinkId> links;
  for (std::uint32_t link = 0; link < fabric.num_links(); ++link) {
    // The root's own uplink carries nothing and has no bandwidth.
    links.push_back(
        graph.add_link(max(fabric.link(FabricLinkId{link}).bandwidth, BytesPerSecond(1))));
  }
  std::vector<Rank> ranks = folded ? classes.representatives : all_ranks(fabric);
  std::vector<engine::ResourceId> streams;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    streams.push_back(graph.add_resource(engine::Discipline::ProgramOrder));
  }
  const engine::ResourceId communication = graph.add_resource(engine::Discipline::ProgramOrder);
  const auto everyone = all_ranks(fabric);
  const Communicator all(fabric, everyone, find_collective_library("nccl"));
  std::optional<engine::TaskId> before;
  for (int step = 0; step < 3; ++step) {
    std::optional<engine::TaskId> last;
    for (int layer = 1; layer <= 4; ++layer) {
      const CollectivePlan plan = all.plan(Collective::AllReduce, Bytes(3e6 * layer));
      std::vector<engine::LinkUse> uses;
      for (const FabricUse& use : plan.uses) uses.push_back({links[use.link.index], use.weight});
      std::vector<engine::TaskId> computed;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        const FabricNodeId node = fabric.node_of(ranks[i]);
        const double factor = fabric.group_of(node).compute_time_factor *
                              (fabric.gpu_of(ranks[i]).sm_count > 100 ? 0.5 : 1);
        computed.push_back(graph.add_task(
            streams[i], engine::to_ticks<Picoseconds>(Seconds(123.457e-6 * layer * factor))));
        if (layer == 1 && before) graph.add_dependency(*before, computed.back());
      }
      last = graph.add_transfer(communication, uses, plan.bytes, plan.latency, plan.rate_cap);
      for (const engine::TaskId task : computed) graph.add_dependency(task, *last);
    }
    before = last;
  }
  return graph.run().makespan;
}

/// What a rank sees of the others: for each, the links on the way with their rates.
std::vector<std::vector<std::tuple<int, double, double>>> view(const Fabric& fabric, Rank from) {
  std::vector<std::vector<std::tuple<int, double, double>>> seen;
  for (const Rank to : all_ranks(fabric)) {
    std::vector<std::tuple<int, double, double>> way;
    for (const FabricLinkId id : fabric.route(from, to).links) {
      const FabricLink& link = fabric.link(id);
      way.emplace_back(static_cast<int>(link.kind), link.bandwidth.in_si(), link.latency.in_s());
    }
    seen.push_back(std::move(way));
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

TEST_SUITE_BEGIN("sim/network/fold");

TEST_CASE("random clusters end at the same picosecond folded and im2col") {
  const Hardware hardware;
  Random random(17);
  int folding = 0;
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    const Fabric fabric = hardware.build(random_cluster(random, false));
    const RankClasses classes = fold(fabric, Meeting::InCollectives);
    folding += classes.folds();
    CHECK(run_job(fabric, classes, true) == run_job(fabric, classes, false));
  }
  CHECK(folding > 100);
}

TEST_CASE("a thousand ranks with one slow node are two classes, and the same folded") {
  const Hardware hardware;
  const Fabric fabric = hardware.build(test::thousand_with_a_slow_node());
  REQUIRE(fabric.num_ranks() == 1000);
  const RankClasses classes = fold(fabric, Meeting::InCollectives);
  CHECK(classes.sizes == std::vector<std::uint32_t>{992, 8});
  CHECK(classes.representatives == std::vector<Rank>{{0}, {992}});
  const Picoseconds folded = run_job(fabric, classes, true);
  CHECK(folded == run_job(fabric, classes, false));
  // The slow node sets the pace: without it the job is faster.
  const Fabric healthy = hardware.build("dgx_a100", 8, 125);
  const RankClasses alike = fold(healthy, Meeting::InCollectives);
  CHECK(alike.sizes == std::vector<std::uint32_t>{1000});
  CHECK(run_job(healthy, alike, true) < folded);
}

TEST_CASE("ranks with a jittered start are folded into nobody") {
  const Hardware hardware;
  Random random(23);
  int jittered = 0;
  for (int round = 0; round < 100; ++round) {
    const Fabric fabric = hardware.build(random_cluster(random, true));
    for (const Meeting meeting : {Meeting::InCollectives, Meeting::InMessages}) {
      const RankClasses classes = fold(fabric, meeting);
      for (const Rank rank : all_ranks(fabric)) {
        if (fabric.group_of(fabric.node_of(rank)).start_jitter == Seconds(0)) continue;
        ++jittered;
        CHECK(classes.sizes[classes.class_of[rank.index]] == 1);
      }
    }
  }
  CHECK(jittered > 100);
  ClusterSpec spec = uniform_cluster("dgx_a100", 8, 4);
  spec.groups[0].start_jitter = Seconds(1e-3);
  CHECK_FALSE(fold(hardware.build(spec), Meeting::InCollectives).folds());
}

TEST_CASE("ranks that send messages are folded only where they see the same") {
  const Hardware hardware;
  Random random(29);
  int folding = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const Fabric fabric = hardware.build(random_cluster(random, false));
    const RankClasses classes = fold(fabric, Meeting::InMessages);
    folding += classes.folds();
    for (const Rank rank : all_ranks(fabric)) {
      const Rank stands_for = classes.representatives[classes.class_of[rank.index]];
      if (stands_for == rank) continue;
      CHECK(view(fabric, rank) == view(fabric, stands_for));
      CHECK(fabric.slot_of(rank) == fabric.slot_of(stands_for));
    }
  }
  CHECK(folding > 30);
}

TEST_CASE("classes by place see leaves, switches and slow links") {
  const Hardware hardware;
  // Five nodes on leaves of two: four are alike, the fifth is alone on its leaf.
  ClusterSpec spec = uniform_cluster("osu_ri2", 1, 5);
  spec.network.nodes_per_leaf = 2;
  CHECK(fold(hardware.build(spec), Meeting::InMessages).sizes == std::vector<std::uint32_t>{4, 1});
  CHECK(fold(hardware.build(spec), Meeting::InCollectives).sizes == std::vector<std::uint32_t>{5});
  // One node with half a NIC, on one switch with all.
  spec.network.nodes_per_leaf = 0;
  spec.groups.push_back(spec.groups[0]);
  spec.groups[1].count = 1;
  spec.groups[1].slow_links = {{"nic0", "network", 0.5}};
  CHECK(fold(hardware.build(spec), Meeting::InMessages).sizes == std::vector<std::uint32_t>{5, 1});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
