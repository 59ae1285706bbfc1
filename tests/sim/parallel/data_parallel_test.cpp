#include "sim/parallel/data_parallel.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/parallel/rank_program.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/sim/layered_network.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using test::Hardware;

/// Two layers with one weight each: forward 1 ms each, backward 2 ms each (the second layer first),
/// updates 0.1 ms each.
struct TwoLayers : test::LayeredNetwork {
  TwoLayers() : LayeredNetwork({layer(1'000'000), layer(2'000'000)}) {}

 private:
  static test::Layer layer(std::int64_t elements) {
    return {.elements = elements, .forward = 1.0_ms, .backward = 2.0_ms, .update = 0.1_ms};
  }
};

/// Each gradient by itself: in to the GPU that adds it, the sum out again; updates as they come.
StrategyProfile copies() {
  StrategyProfile strategy;
  strategy.communication = Communication::Copies;
  strategy.replicas = Replicas::Threads;
  strategy.library = "copies";
  strategy.updates_as_they_come = true;
  return strategy;
}

DataParallelRequest request_of(const Fabric& fabric, const StrategyProfile& strategy,
                               const TwoLayers& network) {
  DataParallelRequest request{
      .fabric = fabric, .strategy = strategy, .kinds = {}, .kind_of = {}, .host = {}};
  request.kinds.push_back(network.kind(fabric.gpu_of(Rank{0})));
  request.kind_of.assign(fabric.num_ranks(), 0);
  return request;
}

/// Time of a copy of `bytes` alone on the links of a route: 10 us and the links' latency, then the
/// slowest link's rate.
Seconds copy_time(const Fabric& fabric, const Route& route, Bytes bytes) {
  BytesPerSecond rate = fabric.link(route.links.front()).bandwidth;
  for (const FabricLinkId link : route.links) rate = min(rate, fabric.link(link).bandwidth);
  return 10.0_us + route.latency + bytes / rate;
}

TEST_SUITE_BEGIN("sim/parallel/data_parallel");

TEST_CASE("gradients are ready in the order of the backward pass, with sizes and first uses") {
  const TwoLayers network;
  const GradientSchedule schedule =
      find_gradients(network.graph, network.one.priced, network.one.program, network.element_bytes);
  REQUIRE(schedule.gradients.size() == 2);
  CHECK(schedule.updates_begin == 4);  // kernels 0 to 3 are forward and backward
  const Gradient &second = schedule.gradients[0], &first = schedule.gradients[1];
  CHECK(second.bytes == Bytes(8e6));
  CHECK(second.ready_after == 2);
  CHECK(second.first_use == 1);
  CHECK(second.updates == std::vector<std::uint32_t>{5});
  CHECK(first.bytes == Bytes(4e6));
  CHECK(first.ready_after == 3);
  CHECK(first.first_use == 0);
  CHECK(first.updates == std::vector<std::uint32_t>{4});
}

TEST_CASE("buckets close at their size, the first at its own, and at every cycle") {
  GradientSchedule schedule;
  std::vector<Seconds> ends;
  for (std::uint32_t i = 0; i < 6; ++i) {
    schedule.gradients.push_back(
        {.weight = {}, .bytes = Bytes(10), .ready_after = i, .first_use = 5 - i});
    ends.push_back(Seconds(1e-3 * (i + 1)));
  }
  struct Row {
    const char* what;
    double bucket, first;
    Seconds cycle;
    std::vector<std::size_t> sizes;
  };
  const Row rows[] = {
      {"each alone", 0, 0, {}, {1, 1, 1, 1, 1, 1}},
      {"two fit, one in the first", 20, 10, {}, {1, 2, 2, 1}},
      {"all", 1000, 1000, {}, {6}},
      {"ready at 1, 2 | 3, 4 | 5, 6 ms, looked at every 2 ms", 1000, 1000, 2.0_ms, {2, 2, 2}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    StrategyProfile strategy;
    strategy.bucket = Bytes(row.bucket);
    strategy.first_bucket = Bytes(row.first);
    strategy.cycle = row.cycle;
    const auto buckets = make_buckets(schedule, strategy, ends);
    std::vector<std::size_t> sizes;
    for (const GradientBucket& bucket : buckets) sizes.push_back(bucket.gradients.size());
    CHECK(sizes == row.sizes);
    CHECK(buckets.back().ready_after == 5);
    CHECK(buckets.back().first_use == 0);
  }
}

TEST_CASE("the expected greatest of one normal number is its mean, of two 1 / sqrt(pi)") {
  CHECK(expected_maximum(1) == 0);
  CHECK(expected_maximum(2) == doctest::Approx(1 / std::sqrt(3.14159265)).epsilon(0.06));
  CHECK(expected_maximum(10) ==
        doctest::Approx(1.539).epsilon(0.02));  // tables of order statistics
  for (std::uint32_t n = 1; n < 2000; n *= 2) CHECK(expected_maximum(2 * n) > expected_maximum(n));
}

TEST_CASE("two ranks, two layers: what the last gradient's copies take is not hidden") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2017", 2, 1, "v100_pcie_16gb");
  const TwoLayers network;
  const StrategyProfile strategy = copies();
  const DataParallelStep step = simulate_data_parallel(request_of(fabric, strategy, network));
  // Two ranks straggle by f = 1 + 0.015 * E[max]. The second layer's gradient (8 MB) is ready at 4
  // f ms and added on GPU 0; its copies hide behind the 2 f ms of the first layer's backward. That
  // one (4 MB) is ready at 6 f ms and goes over GPU 1: in and out again. The second layer's update
  // ran in between: 0.1 f ms after 6 f ms.
  const double f = 1 + rank_variation().rank_sd * expected_maximum(2);
  const Seconds in = copy_time(fabric, fabric.route(Rank{0}, Rank{1}), Bytes(4e6));
  const Seconds out = copy_time(fabric, fabric.route(Rank{1}, Rank{0}), Bytes(4e6));
  REQUIRE(in + out > 0.1_ms * f);
  const Seconds expected = 6.0_ms * f + in + out + 0.1_ms * f;
  CHECK(step.step_time.in_us() == doctest::Approx(expected.in_us()).epsilon(1e-6));
  CHECK(step.num_buckets == 2);
  CHECK(step.communicated == Bytes(12e6));
  CHECK(step.parts.communication.in_us() == doctest::Approx((in + out).in_us()).epsilon(1e-6));
  const StepParts& p = step.parts;
  // Forward, backward and the last update, and what the slower rank takes more of each.
  CHECK(p.compute.in_us() == doctest::Approx(6100).epsilon(1e-6));
  CHECK(p.stragglers.in_us() == doctest::Approx(6100 * (f - 1)).epsilon(1e-6));
  CHECK((p.compute + p.stragglers + p.communication + p.host_update + p.input).in_us() ==
        doctest::Approx(step.step_time.in_us()).epsilon(1e-6));
}

TEST_CASE("weights on the first GPU: the others fetch them there and send their gradients there") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2017", 3, 1, "v100_pcie_16gb");
  StrategyProfile strategy = copies();
  strategy.communication = Communication::FirstGpu;
  const GradientBucket buckets[] = {{.gradients = {}, .bytes = Bytes(8e6)},
                                    {.gradients = {}, .bytes = Bytes(4e6)}};
  const auto communications = plan_communication(buckets, 1, strategy, fabric, "");
  const auto weight_on = [](const CommunicationStage& stage, FabricLinkId link) {
    for (const FabricUse& use : stage.transfer.uses) {
      if (use.link == link) return use.weight;
    }
    return 0.0;
  };
  for (const BucketCommunication& communication : communications) {
    REQUIRE(communication.fetch.size() == 1);
    REQUIRE(communication.push.size() == 1);
    // The first GPU's own link carries what both others get, and what they send.
    const FabricLinkId out = fabric.route(Rank{0}, Rank{1}).links.front();
    const FabricLinkId in = fabric.route(Rank{1}, Rank{0}).links.back();
    CHECK(weight_on(communication.fetch.front(), out) == 2);
    CHECK(weight_on(communication.push.front(), in) == 2);
  }
}

TEST_CASE("a collective after the backward pass hides nothing") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2017", 2, 1, "v100_pcie_16gb");
  const TwoLayers network;
  StrategyProfile late = copies();
  late.overlaps_backward = false;
  const StrategyProfile hidden = copies();
  const auto with = simulate_data_parallel(request_of(fabric, hidden, network));
  const auto without = simulate_data_parallel(request_of(fabric, late, network));
  CHECK(without.step_time > with.step_time);
  CHECK(without.exposed == doctest::Approx(1.0).epsilon(1e-6));
}

TEST_CASE("a host gets ahead while gradients are on their way, unless it waits for each step") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2017", 2, 1, "v100_pcie_16gb");
  const double f = 1 + rank_variation().rank_sd * expected_maximum(2);
  StrategyProfile late = copies();
  late.overlaps_backward = false;
  const auto step_of = [&](const TwoLayers& network) {
    return simulate_data_parallel(request_of(fabric, late, network));
  };
  TwoLayers network;
  const DataParallelStep unpaced = step_of(network);
  // Six launches of 1.2 ms: alone the host paces the step, at 7.2 ms for 6.2 ms of kernels. While
  // the gradients travel, for more than the difference, it issues the next step's kernels.
  network.one.program.launch = 1.2_ms;
  REQUIRE(unpaced.step_time > 7.2_ms * f);
  const DataParallelStep ahead = step_of(network);
  CHECK(ahead.step_time.in_us() == doctest::Approx(unpaced.step_time.in_us()).epsilon(1e-9));
  CHECK(ahead.account.work.idle.in_us() == doctest::Approx(0).epsilon(1e-9));
  // A host that begins when the step before has ended: the four kernels before the gradients end
  // at 2.2, 3.4, 5.6 and 7.6 ms, and not at 1, 2, 4 and 6. Updates are issued by then, and both
  // follow the larger gradient, the first one's.
  network.one.program.synchronizes = true;
  const DataParallelStep waiting = step_of(network);
  CHECK((waiting.step_time - unpaced.step_time).in_us() == doctest::Approx(1600 * f).epsilon(1e-6));
  CHECK(waiting.account.work.idle.in_us() == doctest::Approx(1600 * f).epsilon(1e-3));
  CHECK((waiting.parts.compute + waiting.parts.stragglers).in_us() ==
        doctest::Approx((7.8_ms * f).in_us()).epsilon(1e-6));
}

TEST_CASE("where nothing is exposed the host paces many GPUs as it paces one") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2017", 2, 1, "v100_pcie_16gb");
  const double f = 1 + rank_variation().rank_sd * expected_maximum(2);
  TwoLayers network;
  network.one.program.launch = 3.0_ms;
  const DataParallelStep step = simulate_data_parallel(request_of(fabric, copies(), network));
  CHECK(step.step_time.in_us() == doctest::Approx(18000 * f).epsilon(1e-6));
  CHECK(step.account.total().in_us() == doctest::Approx(step.step_time.in_us()).epsilon(1e-6));
}

TEST_CASE("a queue of one launch keeps a host from getting ahead") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2017", 2, 1, "v100_pcie_16gb");
  TwoLayers network;
  network.one.program.launch = 1.2_ms;
  const StrategyProfile strategy = copies();
  const DataParallelRequest request = request_of(fabric, strategy, network);
  const Seconds ahead = simulate_data_parallel(request).step_time;
  network.one.program.launch_queue = 1;
  CHECK(simulate_data_parallel(request).step_time > ahead + 0.5_ms);
}

TEST_CASE("GPUs of a node divide the update among them; between nodes parts are summed") {
  const Hardware hardware;
  const TwoLayers network;
  StrategyProfile sharded = find_strategy("distributed_lamb");
  sharded.packing_copies = 0;
  StrategyProfile whole = sharded;
  whole.divides_updates = false;
  const Fabric node = hardware.build("dgx1_v100", 8, 1);
  const Seconds less = simulate_data_parallel(request_of(node, whole, network)).step_time -
                       simulate_data_parallel(request_of(node, sharded, network)).step_time;
  // Two updates of 0.1 ms on every GPU; an eighth of them.
  CHECK(less.in_us() == doctest::Approx(200.0 * 7 / 8 * straggling_of(node, 0, 1)).epsilon(1e-6));

  const Fabric nodes = hardware.build("dgx1_v100", 8, 3);
  const GradientBucket bucket[] = {{.gradients = {}, .bytes = Bytes(8e6)}};
  const auto parts = plan_communication(bucket, 1, sharded, nodes, "");
  REQUIRE(parts.front().push.size() == 3);  // scattered, summed, gathered
  for (const CommunicationStage& stage : parts.front().push) {
    CHECK(time_alone(stage.transfer, nodes) > Seconds(0));
    CHECK(stage.on_sms);
  }
  CHECK(plan_communication(bucket, 1, whole, nodes, "").front().push.size() == 1);
}

TEST_CASE("ranks alike are folded to the same ticks, under every strategy") {
  const Hardware hardware;
  const TwoLayers network;
  for (const std::string& id : strategy_ids()) {
    if (find_strategy(id).replicas == Replicas::Python) continue;  // replicas_test.cpp
    for (const int nodes : {1, 3}) {
      CAPTURE(id);
      CAPTURE(nodes);
      const Fabric fabric = hardware.build("dgx1_v100", 8, nodes);
      DataParallelRequest request = request_of(fabric, find_strategy(id), network);
      const DataParallelStep folded = simulate_data_parallel(request);
      request.fold = false;
      const DataParallelStep im2col = simulate_data_parallel(request);
      CHECK(folded.step_time.in_s() == im2col.step_time.in_s());
      CHECK(folded.parts.communication.in_s() == im2col.parts.communication.in_s());
      CHECK(folded.step_time >= network.one.timeline.step_time);  // no better than ideal
    }
  }
}

TEST_CASE("one slow node sets the pace of a synchronous step, folded or not") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 8, 4);
  const TwoLayers network;
  const StrategyProfile& strategy = find_strategy("ddp");
  DataParallelRequest request = request_of(fabric, strategy, network);
  const DataParallelStep healthy = simulate_data_parallel(request);
  request.kinds.push_back(network.kind(fabric.gpu_of(Rank{0}), 1.5));
  for (std::uint32_t r = 8; r < 16; ++r) request.kind_of[r] = 1;
  const DataParallelStep folded = simulate_data_parallel(request);
  request.fold = false;
  const DataParallelStep im2col = simulate_data_parallel(request);
  CHECK(folded.step_time.in_s() == im2col.step_time.in_s());
  CHECK(folded.step_time > healthy.step_time * 1.3);  // most of the step is compute
  CHECK(folded.utilization[0].avg < folded.utilization[1].avg + 1e-9);
}

TEST_CASE("a slower link never makes a step faster") {
  const Hardware hardware;
  const TwoLayers network;
  for (const char* id : {"ddp", "parameter_server", "replicated_copies", "caffe_tree"}) {
    CAPTURE(id);
    Seconds before{};
    for (const double factor : {1.0, 0.5, 0.1, 0.02}) {
      ClusterSpec spec = uniform_cluster("pcie_host_2017", 8, 1, "v100_pcie_16gb");
      const MachineSpec& machine = hardware.machines.find("pcie_host_2017");
      for (const MachineLink& link : machine.links) {
        spec.groups[0].slow_links.push_back(
            {machine.nodes[link.a].name, machine.nodes[link.b].name, factor});
      }
      const Fabric fabric = hardware.build(spec);
      const Seconds now =
          simulate_data_parallel(request_of(fabric, find_strategy(id), network)).step_time;
      CHECK(now >= before * (1 - 1e-9));
      before = now;
    }
  }
}

TEST_CASE("a loader that is slower than the step paces it") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 8);
  const TwoLayers network;
  DataParallelRequest request = request_of(fabric, find_strategy("ddp"), network);
  request.input_supply = 20.0_ms;
  const DataParallelStep step = simulate_data_parallel(request);
  CHECK(step.step_time == 20.0_ms);
  CHECK(step.parts.input > 10.0_ms);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
