// Racks and superchips: one NVLink domain over compute trays that have their own processors and
// NICs.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/error.hpp"
#include "sim/network/collective.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using test::Hardware;

constexpr double kC2cPayload = 0.824, kNvlink5Payload = 0.802;

BytesPerSecond narrowest(const Fabric& fabric, const Route& route) {
  BytesPerSecond least(1e18);
  for (const FabricLinkId link : route.links) least = min(least, fabric.link(link).bandwidth);
  return least;
}

TEST_SUITE_BEGIN("sim/network/rack");

TEST_CASE("72 GPUs of a rack reach each other over NVLink at full rate") {
  const Hardware hardware;
  for (const char* rack : {"gb200_nvl72", "gb300_nvl72"}) {
    CAPTURE(rack);
    const Fabric fabric = hardware.build(rack, 72);
    for (const Rank a : all_ranks(fabric)) {
      for (const Rank b : all_ranks(fabric)) {
        if (a == b) continue;
        const Route route = fabric.route(a, b);
        REQUIRE(route.kind == RouteKind::Nvlink);
        // NVLink-C2C takes nothing from the GPU's NVLinks: 18 x 50 GB/s.
        REQUIRE(narrowest(fabric, route).in_gb_per_s() == doctest::Approx(900 * kNvlink5Payload));
      }
    }
  }
}

TEST_CASE("a GPU's host and NIC are those of its own tray") {
  const Hardware hardware;
  for (const char* rack : {"gb200_nvl72", "gb300_nvl72"}) {
    CAPTURE(rack);
    const Fabric fabric = hardware.build(rack, 72, 2);
    for (std::uint32_t i = 0; i < 72; ++i) {
      CAPTURE(i);
      CHECK(fabric.port_of(Rank{i}) / 4 == i / 4);
      const Route copy = fabric.route_from_host(Rank{i});
      CHECK(copy.kind == RouteKind::HostBridge);
      CHECK(fabric.name_of(copy.links.back()) ==
            "node 0: cpu" + std::to_string(i / 2) + " > gpu" + std::to_string(i));
      CHECK(fabric.link(copy.links.back()).kind == FabricLinkKind::C2c);
      CHECK(narrowest(fabric, copy).in_gb_per_s() == doctest::Approx(225 * kC2cPayload));
    }
    const Route far = fabric.route(Rank{0}, Rank{72});
    CHECK(far.kind == RouteKind::Network);
    CHECK_FALSE(far.is_staged);  // NICs read the GPU's memory over NVLink-C2C or their own switch
    CHECK(fabric.ranks_of_host(FabricNodeId{0}) == 4);
  }
  CHECK(hardware.build("gb200_nvl72", 2).ranks_of_host(FabricNodeId{0}) == 2);
  CHECK(hardware.build("dgx_b200", 8).ranks_of_host(FabricNodeId{0}) == 8);
}

TEST_CASE("a rack's GPUs communication at the rate of eight in a box of the same NVLinks") {
  const Hardware hardware;
  const auto& library = find_collective_library("nccl", "2.27");
  const auto seconds = [&](const Fabric& fabric) {
    const auto ranks = all_ranks(fabric);
    return time_alone(plan_collective(fabric, ranks, Collective::AllReduce, Bytes(4e9), library),
                      fabric)
        .in_s();
  };
  const double box = seconds(hardware.build("dgx_b200", 8));
  // Its boards' clock is higher by a twentieth, and with it what a round costs beside its bytes.
  CHECK(seconds(hardware.build("gb200_nvl72", 8)) == doctest::Approx(box).epsilon(0.02).scale(0));
  // The switch adds and sends to all: of every byte a GPU gives its own and takes the sum of its
  // n-th part, 1 + 1 / n. Rounds among 32 of 72 GPUs hold four times the bytes: they are cheaper by
  // the byte, and one and a half of them fill the pipeline.
  const double rack = seconds(hardware.build("gb200_nvl72", 72)) / box;
  CHECK(rack > 0.8 * (1 + 1.0 / 32) / (1 + 1.0 / 8));
  CHECK(rack < 1.2 * (1 + 1.0 / 32) / (1 + 1.0 / 8));
}

TEST_CASE("in a domain of many GPUs 32 of them reduce in the switch") {
  // Hops of a round grow from 8 heads to 32 by the pace's exponent, and no further; 4 KiB take no
  // time on the links.
  const Hardware hardware;
  const auto library = find_collective_library("nccl", "2.26");
  const auto time_on = [&](int gpus, double bytes) {
    const Fabric fabric = hardware.build("gb200_nvl72", gpus);
    const auto plan =
        plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(bytes), library);
    CHECK(plan.algorithm == CollectiveAlgorithm::Nvls);
    return time_alone(plan, fabric).in_us();
  };
  const CollectiveEfficiency& efficiency = binary().collective_efficiency();
  const SwitchEfficiency& nvls = efficiency.nvls;
  const double hop_us = efficiency.find_generation(EfficiencyLink::Nvlink, 100)->hop_kilocycles *
                        1e3 / hardware.gpus.find("gb200").boost_clock.in_mhz();
  const double of_32 = nvls.round_hops * std::pow(4, nvls.gpus_exponent);
  CHECK(time_on(72, 4096) ==
        doctest::Approx((1 + nvls.fill_rounds) * of_32 * hop_us).epsilon(0.01));
  CHECK(time_on(72, 4096) == doctest::Approx(time_on(36, 4096)).epsilon(0.01));
  // Large ones are the links': nearly as fast among 72 as among 8.
  CHECK(time_on(72, 4e9) == doctest::Approx(time_on(8, 4e9)).epsilon(0.15));
}

TEST_CASE("superchips of a node have NVLinks among each other beside NVLink-C2C") {
  const Hardware hardware;
  struct Row {
    const char* machine;
    int gpus, bricks;
  };
  for (const Row& row : {Row{"gh200_quad", 4, 6}, Row{"gh200_nvl2", 2, 18}}) {
    CAPTURE(row.machine);
    const Fabric fabric = hardware.build(row.machine, row.gpus);
    CHECK(fabric.bricks_between(Rank{0}, Rank{1}) == row.bricks);
    const Route copy = fabric.route_from_host(Rank{0});
    CHECK(narrowest(fabric, copy).in_gb_per_s() == doctest::Approx(450 * kC2cPayload));
  }
}

TEST_CASE("a GPU without a way to any NIC is refused") {
  const Hardware hardware;
  const SpecLibrary without = hardware.specs.with_changed<MachineSpec>([](MachineSpec machine) {
    if (machine.id != "gb200_nvl72") return machine;
    // The first tray loses its NICs.
    std::erase_if(machine.links, [&](const MachineLink& link) {
      const MachineNode &a = machine.nodes[link.a], &b = machine.nodes[link.b];
      const auto is_first = [](const MachineNode& n) {
        return n.kind == NodeKind::Nic && n.name.size() == 4 && n.name[3] < '4';
      };
      return is_first(a) || is_first(b);
    });
    return machine;
  });
  CHECK_THROWS_WITH_AS((void)build_fabric(uniform_cluster("gb200_nvl72", 8, 2), without),
                       doctest::Contains("no way from gpu0 to a NIC"), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
