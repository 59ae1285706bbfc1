#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/network/collective.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/sim/random_cluster.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using test::Hardware;

CollectivePlan all_reduce(const Fabric& fabric, PlanLinks links, Bytes bytes,
                          std::string_view library = "nccl") {
  const std::vector<Rank> ranks = all_ranks(fabric);
  return Communicator(fabric, ranks, find_collective_library(library), links)
      .plan(Collective::AllReduce, bytes);
}

/// The links that a plan loads most, most first; of equal ones the first.
std::vector<FabricLinkId> busiest(const CollectivePlan& plan, const Fabric& fabric) {
  std::vector<FabricUse> uses = plan.uses;
  const auto load = [&](const FabricUse& use) {
    return use.weight / fabric.link(use.link).bandwidth.in_si();
  };
  std::stable_sort(uses.begin(), uses.end(),
                   [&](const FabricUse& a, const FabricUse& b) { return load(a) > load(b); });
  std::vector<FabricLinkId> links;
  for (std::size_t i = 0; i < std::min(uses.size(), kFewOfAlike); ++i)
    links.push_back(uses[i].link);
  return links;
}

void check_alike(const Fabric& fabric, std::string_view library = "nccl") {
  for (const Bytes bytes : {Bytes(1e3), Bytes(1e8)}) {
    CAPTURE(bytes.in_bytes());
    const CollectivePlan all = all_reduce(fabric, PlanLinks::All, bytes, library);
    const CollectivePlan few = all_reduce(fabric, PlanLinks::FewOfAlike, bytes, library);
    CHECK(few.uses.size() <= all.uses.size());
    CHECK(few.latency == all.latency);
    CHECK(few.bytes == all.bytes);
    CHECK(few.rate_cap == all.rate_cap);
    CHECK(few.algorithm == all.algorithm);
    CHECK(time_alone(few, fabric) == time_alone(all, fabric));
    CHECK(busiest(few, fabric) == busiest(all, fabric));
  }
}

TEST_SUITE_BEGIN("sim/parallel/many_ranks");

TEST_CASE("a few of the links that are alike say what all of them do") {
  const Hardware hardware;
  struct Row {
    const char* machine;
    int gpus, nodes;
  };
  for (const Row& row : {Row{"dgx1_v100", 8, 1}, Row{"dgx1_v100", 8, 8}, Row{"dgx1_v100", 8, 128},
                         Row{"dgx_a100", 8, 1024}, Row{"osu_ri2", 1, 300}}) {
    CAPTURE(row.machine);
    CAPTURE(row.nodes);
    const Fabric fabric = hardware.build(row.machine, row.gpus, row.nodes);
    check_alike(fabric);
    check_alike(fabric, "mpi");
  }
  Random random(18);
  for (int i = 0; i < 60; ++i) {
    CAPTURE(i);
    ClusterSpec spec = test::random_cluster(random, false);
    for (ClusterGroup& group : spec.groups) group.count *= 1 + static_cast<int>(random.below(20));
    check_alike(hardware.build(spec));
  }
}

TEST_CASE("plans of alike nodes do not grow with their number") {
  const Hardware hardware;
  const auto links = [&](int nodes) {
    const Fabric fabric = hardware.build("dgx1_v100", 8, nodes);
    return all_reduce(fabric, PlanLinks::FewOfAlike, Bytes(1e8)).uses.size();
  };
  const std::size_t at_128 = links(16), at_million = links(125'000);
  CHECK(at_128 > 0);
  CHECK(at_million <= at_128);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
