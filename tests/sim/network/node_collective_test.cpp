#include "sim/network/node_collective.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/sim/hardware.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using test::Hardware;

constexpr std::string_view kEfficiency = R"(
data_set: "made up"
generation { link: NVLINK from_capability: 80 hop_kilocycles: 1 start_kilocycles: 6 }
generation { link: NVLINK from_capability: 90 hop_kilocycles: 0.5 start_kilocycles: 4 }
way { link: NVLINK protocol: "ll" start_hops: 0 step_hops: 1 slices: 1 slice_hops: 0 link_fraction: 0.5 local_per_pass: 1 local_once: 0 distributed_hops: 0 }
way { link: NVLINK protocol: "simple" start_hops: 10 step_hops: 8 slices: 2 slice_hops: 1 link_fraction: 1 local_per_pass: 0 local_once: 0.5 distributed_hops: 0 }
nvls { round_hops: 10 gpus_exponent: 1 fill_rounds: 2 link_fraction: 1 }
messages { link: NVLINK start_hops: 1 peer_hops: 0.5 grow_hops: 4 grow_kib: 20 link_fraction: 1 local_share: 0.5 pair_fraction: 1 }
kernel { library: "engine" algorithm: "one-shot" start_us: 1 start_hops: 4 rank_hops: 0.5 window_kib: 600 link_fraction: 1 }
kernel { library: "engine" algorithm: "two-shot" start_us: 2 start_hops: 6 rank_hops: 0.5 window_kib: 0 link_fraction: 0.8 }
isolated { wait_us: 0 factor: 1 log_sd_below_1_mib: 0.2 log_sd: 0.2 }
uncertainty { link: NVLINK from_kib: 0 log_sd: 0.2 }
uncertainty { link: NVLINK from_kib: 1024 log_sd: 0.1 }
)";

/// Eight GPUs on a switch, 200 GB/s of payload each way; the pace above.
struct Box {
  CollectiveEfficiency efficiency = parse_collective_efficiency(kEfficiency, "efficiency");
  CollectiveLibrary library;
  RingWays rings;
  explicit Box(std::uint32_t ranks = 8, int capability = 80, double gb_per_s = 200) {
    library.is_limited = true;
    library.id = "engine";
    rings.num_ranks = rings.most_per_node = ranks;
    rings.num_nodes = 1;
    rings.farthest = RouteKind::Nvlink;
    rings.switched = true;
    rings.capability = capability;
    rings.bandwidth = BytesPerSecond(gb_per_s * 1e9);
    rings.channels = 24;
    rings.clock = Hertz(1e9);
  }
  [[nodiscard]] std::optional<NodeCollective> node() const {
    return NodeCollective::find(rings, library, efficiency);
  }
  /// On idle links, in microseconds.
  [[nodiscard]] double us(const CollectivePlan& plan, double link_fraction) const {
    return (plan.latency + plan.bytes / (rings.bandwidth * link_fraction)).in_us();
  }
  [[nodiscard]] double ring_us(Collective collective, CollectiveProtocol protocol,
                               double bytes) const {
    CollectivePlan plan;
    plan.algorithm = CollectiveAlgorithm::Ring;
    plan.protocol = protocol;
    REQUIRE(node()->set_ring(plan, collective, Bytes(bytes)));
    return us(plan, protocol == CollectiveProtocol::LowLatency ? 0.5 : 1);
  }
};

TEST_SUITE_BEGIN("sim/network/node_collective");

TEST_CASE("a step of a ring waits for its links or for a hop and one slice") {
  const Box box;
  struct Row {
    const char* what;
    Collective collective;
    CollectiveProtocol protocol;
    double bytes, us;
  };
  // Chunks of S / 8: 1.6 MB take 1 us each at 200 GB/s.
  const Row rows[] = {
      {"16 us a chunk in two slices of 8: 8 + 8 > 16 + 2? no: the links hold it, 18 us a step",
       Collective::AllReduce, CollectiveProtocol::Simple, 25.6e6, 16 + 14 * 18 + 8},
      {"4 us a chunk: a hop and one slice take 8 + 2 > 4 + 2", Collective::AllReduce,
       CollectiveProtocol::Simple, 6.4e6, 16 + 14 * 10 + 2},
      {"an all-gather goes around once", Collective::AllGather, CollectiveProtocol::Simple, 6.4e6,
       16 + 7 * 10 + 2},
      {"low latency: 1 us a chunk at half the bandwidth, one hop a step, both ways copied",
       Collective::AllReduce, CollectiveProtocol::LowLatency, 0.8e6, 6 + 14 * 2 + 2},
      {"a broadcast passes all of it over every edge", Collective::Broadcast,
       CollectiveProtocol::LowLatency, 1e6, 6 + 7 + 10},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(box.ring_us(row.collective, row.protocol, row.bytes) == doctest::Approx(row.us));
  }
}

TEST_CASE("a switch reduces in rounds of as many chunks as there are channels and GPUs") {
  const Box box(8, 90);
  const auto time = [&](double bytes) {
    CollectivePlan plan;
    box.node()->set_switch(plan, Bytes(bytes), 16);
    return box.us(plan, 1);
  };
  // 128 chunks under way. 512 MiB are 32 rounds of 128 KiB or 64 of 64: fewer than 64 of 128 KiB,
  // so 64 of 64 KiB.
  const double mib = 1024 * 1024, round = 10 * 0.5 + 8 * mib * 1.125 / 200e9 * 1e6;
  CHECK(time(512 * mib) == doctest::Approx((64 + 2) * round));
  // 1 MiB: chunks of 16 KiB, not one full round.
  CHECK(time(mib) == doctest::Approx(3 * (5 + mib * 1.125 / 200e9 * 1e6)));
}

TEST_CASE("of many GPUs 32 reduce in the switch") {
  // 16 channels x 32 chunks of 64 KiB: 1 GiB is 32 rounds of them, 40 hops each; of every byte 1/32
  // is sent again.
  const double mib = 1024 * 1024, round = 40 * 0.5 + 32 * mib * (1 + 1.0 / 32) / 200e9 * 1e6;
  for (const std::uint32_t ranks : {32U, 72U, 576U}) {
    CAPTURE(ranks);
    const Box box(ranks, 90);
    CollectivePlan plan;
    box.node()->set_switch(plan, Bytes(1024 * mib), 16);
    CHECK(box.us(plan, 1) == doctest::Approx((32 + 2) * round));
    CHECK(box.node()->log_sd(Bytes(1024 * mib), false) ==
          doctest::Approx(std::hypot(0.1, 0.2 * std::log(ranks / 8.0))));
  }
}

TEST_CASE("messages pay for peers, for their size and for the share that stays") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx_a100", 8);
  const Box box;
  CollectivePlan plan;
  plan.bytes = Bytes(20 * 1024);
  plan.uses = {{FabricLinkId{0}, 7}};
  const double link = fabric.link(FabricLinkId{0}).bandwidth.in_si();
  REQUIRE(box.node()->set_messages(plan, Collective::AllToAll, fabric));
  const double bytes = 7 * 20 * 1024 / link * 1e6, growth = 4 * 0.5;
  CHECK((plan.latency + plan.bytes / (BytesPerSecond(link) / 7)).in_us() ==
        doctest::Approx(6 + 1 + 0.5 * 6 + growth + bytes + 0.5 / 7 * bytes));
}

TEST_CASE("an engine takes small buffers in one shot, larger ones in two, and leaves the rest") {
  Box box(4);
  box.library.kernels = {{80, 4, KernelAlgorithm::OneShot, Bytes(5e5)},
                         {80, 4, KernelAlgorithm::TwoShot, Bytes(8e6)}};
  const auto small = box.node()->find_kernel(Bytes(4e5));
  REQUIRE(small);
  // 1 + (4 + 0.5 x 2) us; three buffers at 600 KiB in three hops.
  const double window = 600 * 1024 / 3.0;
  CHECK((small->latency + small->bytes / *small->rate_cap).in_us() ==
        doctest::Approx(6 + 3 * 4e5 / window));
  const auto large = box.node()->find_kernel(Bytes(1e6));
  REQUIRE(large);
  CHECK(box.us(*large, 0.8) == doctest::Approx(2 + 7 + 1.5 * 1e6 / 160e9 * 1e6));
  CHECK(!box.node()->find_kernel(Bytes(9e6)));
  CHECK(!Box(8).node()->find_kernel(Bytes(1e3)));
}

TEST_CASE("a newer GPU has the pace of the newest generation that it reaches, an older one none") {
  CHECK(Box(8, 75).node() == std::nullopt);
  CHECK(Box(8, 120).ring_us(Collective::AllGather, CollectiveProtocol::LowLatency, 1) ==
        doctest::Approx(4 + 7 * 0.5).epsilon(1e-3));
  Box several;
  several.rings.num_nodes = 2;
  CHECK(several.node() == std::nullopt);
  Box old_library;
  old_library.library.is_limited = false;
  CHECK(old_library.node() == std::nullopt);
  Box cards;
  cards.rings.farthest = RouteKind::HostBridge;
  CHECK(cards.node() == std::nullopt);
}

TEST_CASE("more bandwidth never slows an algorithm, more bytes never hasten a ring") {
  for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::Reduce}) {
    for (const CollectiveProtocol p :
         {CollectiveProtocol::LowLatency, CollectiveProtocol::Simple}) {
      double before = 0;
      for (double bytes = 1; bytes < 4e9; bytes *= 1.7) {
        const double time = Box().ring_us(c, p, bytes);
        CHECK(time >= before);
        CHECK(Box(8, 80, 400).ring_us(c, p, bytes) <= time);
        before = time;
      }
    }
  }
  for (double bytes = 1; bytes < 4e9; bytes *= 1.7) {
    CollectivePlan slow, fast;
    Box().node()->set_switch(slow, Bytes(bytes), 16);
    Box(8, 80, 400).node()->set_switch(fast, Bytes(bytes), 16);
    CHECK(Box(8, 80, 400).us(fast, 1) <= Box().us(slow, 1));
  }
}

TEST_CASE("spreads go by size") {
  CHECK(Box().node()->log_sd(Bytes(1000), false) == 0.2);
  CHECK(Box().node()->log_sd(Bytes(1 << 20), false) == 0.1);
}

TEST_CASE(
    "the order of ranks changes nothing, no bytes cost nothing, odd sizes are like their "
    "neighbours") {
  const Hardware hardware;
  for (const char* machine : {"dgx_a100", "dgx_h100", "dgx_b200"}) {
    CAPTURE(machine);
    const Fabric fabric = hardware.build(machine, 8);
    std::vector<Rank> ranks = all_ranks(fabric), turned = ranks;
    std::reverse(turned.begin(), turned.end());
    for (const char* id : {"nccl", "vllm_custom", "sglang_custom", "trtllm"}) {
      CAPTURE(id);
      const auto& library = find_collective_library(id);
      const Communicator one(fabric, ranks, library), other(fabric, turned, library);
      for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter,
                                 Collective::AllGather, Collective::AllToAll}) {
        CHECK(time_alone(one.plan(c, Bytes(0)), fabric) == Seconds(0));
        for (const double bytes : {1.0, 1000.0, 1e6 + 1, 3e7, 1e9}) {
          const double time = time_alone(one.plan(c, Bytes(bytes)), fabric).in_us();
          CHECK(time > 0);
          CHECK(time_alone(other.plan(c, Bytes(bytes)), fabric).in_us() == doctest::Approx(time));
          CHECK(time_alone(one.plan(c, Bytes(bytes + 3)), fabric).in_us() ==
                doctest::Approx(time).epsilon(0.01));
        }
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
