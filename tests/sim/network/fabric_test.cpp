#include "sim/network/fabric.hpp"

#include <doctest/doctest.h>

#include <set>

#include "sim/base/error.hpp"
#include "sim/network/collective.hpp"
#include "tests/sim/hardware.hpp"

namespace tracecast {
namespace {
using test::Hardware;

std::string names(const Fabric& fabric, const Route& route) {
  std::string text;
  for (const FabricLinkId link : route.links) {
    text += (text.empty() ? "" : "; ") + fabric.name_of(link);
  }
  return text;
}

TEST_SUITE_BEGIN("sim/network/fabric");

TEST_CASE("every machine's GPUs reach each other, and two of a kind with a network do too") {
  const Hardware hardware;
  for (const MachineSpec& machine : hardware.machines.all()) {
    CAPTURE(machine.id);
    const int slots = static_cast<int>(machine.nodes_of(NodeKind::Gpu).size());
    if (slots == 0) continue;
    const int nodes = machine.nodes_of(NodeKind::Network).empty() ? 1 : 2;
    const Fabric fabric = hardware.build(machine.id, slots, nodes,
                                         machine.gpus.empty() ? "v100_pcie_16gb" : machine.gpus[0]);
    REQUIRE(fabric.num_ranks() == static_cast<std::uint32_t>(slots * nodes));
    for (const Rank a : all_ranks(fabric)) {
      for (const Rank b : all_ranks(fabric)) {
        const Route route = fabric.route(a, b);
        CHECK(route.links.empty() == (a == b));
        CHECK((route.kind == RouteKind::Network) == (fabric.node_of(a) != fabric.node_of(b)));
        for (const FabricLinkId link : route.links) {
          CHECK(fabric.link(link).bandwidth > BytesPerSecond(0));
        }
      }
    }
  }
}

TEST_CASE("NVLinks carry no more than the GPU has, whatever its machine draws") {
  // DGX-1 draws six of V100's, 150 GB/s; P100 has 80.
  const Hardware hardware;
  const Fabric drawn = hardware.build("dgx1_v100", 8, 1, "v100_sxm2_16gb"),
               older = hardware.build("dgx1_v100", 8, 1, "p100_sxm2_16gb");
  for (const std::uint32_t other : {1, 2, 3, 4}) {
    CAPTURE(other);
    const Route route = drawn.route(Rank{0}, Rank{other});
    REQUIRE(route.kind == RouteKind::Nvlink);
    REQUIRE(route.links.size() == 1);
    CHECK(older.link(route.links[0]).bandwidth.in_si() ==
          doctest::Approx(drawn.link(route.links[0]).bandwidth.in_si() * 80 / 150));
  }
}

TEST_CASE("routes take NVLink, else the nearest common switch, root port or socket") {
  const Hardware hardware;
  const Fabric dgx = hardware.build("dgx1_v100", 8, 2);
  struct Row {
    std::uint32_t from, to;
    RouteKind kind;
    bool staged;
    const char* links;
  };
  const Row rows[] = {
      {0, 3, RouteKind::Nvlink, false, "node 0: gpu0 > gpu3"},
      // No NVLink between 0 and 5; another socket, so through its memory, written and read.
      {0, 5, RouteKind::Socket, true,
       "node 0: gpu0 > plx0; node 0: plx0 > cpu0; node 0: cpu0 > cpu1; node 0: cpu1 memory; node "
       "0: cpu1 "
       "memory; node 0: cpu1 > plx2; node 0: plx2 > gpu5"},
      {0, 8, RouteKind::Network, false,
       "node 0: gpu0 > plx0; node 0: plx0 > nic0; node 0: nic0 > network; node 1: network > nic0; "
       "node 1: "
       "nic0 > plx0; node 1: plx0 > gpu0"},
  };
  for (const Row& row : rows) {
    const Route route = dgx.route({row.from}, {row.to});
    CHECK(route.kind == row.kind);
    CHECK(route.is_staged == row.staged);
    CHECK(names(dgx, route) == row.links);
  }
}

TEST_CASE("cards without peer access go through host memory") {
  const Hardware hardware;
  const Fabric pascal = hardware.build("pcie_host_2017", 4, 2, "gtx1080ti");
  const Fabric turing = hardware.build("pcie_host_2017", 4, 2, "rtx2080ti");
  CHECK_FALSE(pascal.route({0}, {1}).is_staged);
  CHECK(pascal.route({0}, {1}).kind == RouteKind::PcieSwitch);
  CHECK(turing.route({0}, {1}).is_staged);
  // Neither reaches a NIC.
  CHECK(pascal.route({0}, {4}).is_staged);
  CHECK_FALSE(hardware.build("dgx_a100", 8, 2).route({0}, {8}).is_staged);
}

TEST_CASE("a card that is older than its slot has its own rate, and NVLinks only if it has any") {
  const Hardware hardware;
  // V100 has PCIe 3: 15.754 GB/s, of which 0.774 is payload, in a PCIe 4 slot.
  const Fabric fabric = hardware.build("pcie_host_2020", 2, 1, "v100_pcie_16gb");
  const Route route = fabric.route({0}, {1});
  CHECK(fabric.link(route.links.front()).bandwidth.in_gb_per_s() ==
        doctest::Approx(15.75 * 0.774).epsilon(0.002));
  CHECK(hardware.build("s_wisc_v100", 2, 1, "k40m").route({0}, {1}).kind != RouteKind::Nvlink);
}

TEST_CASE("GPUs below one switch with two NICs take one each") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx_a100", 8, 2);
  std::set<std::uint32_t> ports;
  for (std::uint32_t i = 0; i < 8; ++i) ports.insert(fabric.port_of({i}));
  CHECK(ports.size() == 8);
}

TEST_CASE("an oversubscribed leaf has its NICs' bandwidth over the factor") {
  const Hardware hardware;
  ClusterSpec spec = uniform_cluster("dgx_a100", 8, 8);
  spec.network.nodes_per_leaf = 4;
  spec.network.oversubscription = 2;
  const Fabric fabric = hardware.build(spec);
  CHECK(fabric.route({0}, {24}).links.size() == 6);  // node 3, same leaf
  const Route far = fabric.route({0}, {32});         // node 4
  REQUIRE(far.links.size() == 8);
  // 4 nodes x 8 NICs x 0.984 x 25 GB/s / 2
  CHECK(fabric.link(far.links[3]).kind == FabricLinkKind::Uplink);
  CHECK(fabric.link(far.links[3]).bandwidth.in_gb_per_s() == doctest::Approx(393.6));
  CHECK(fabric.name_of(far.links[3]) == "leaf 0 > spine");
  CHECK(fabric.name_of(far.links[4]) == "spine > leaf 1");
}

TEST_CASE("on rails the NICs of one number meet on a leaf of their own") {
  const Hardware hardware;
  ClusterSpec spec = uniform_cluster("dgx_a100", 8, 8);
  spec.network.nodes_per_leaf = 4;
  spec.network.rail_optimized = true;
  const Fabric fabric = hardware.build(spec);
  CHECK(fabric.route({0}, {24}).links.size() == 6);  // same rail, same leaf
  CHECK(fabric.route({0}, {25}).links.size() == 8);  // another rail: over the spine
}

TEST_CASE("drawn switches are crossed up to the nearest common one") {
  const Hardware hardware;
  const ClusterSpec spec = load_cluster_spec(R"(
      network {
        switch { name: "core" }
        switch { name: "row" parent: "core" link: "ethernet_40g" count: 2 }
        switch { name: "rack0" parent: "row" link: "ethernet_40g" }
        switch { name: "rack1" parent: "row" link: "ethernet_40g" }
        switch { name: "far" parent: "core" link: "ethernet_10g" }
      }
      group { name: "a" machine: "osu_ri2" switch: "rack0" count: 2 }
      group { name: "b" machine: "osu_ri2" switch: "rack1" }
      group { name: "c" machine: "osu_ri2" switch: "far" })",
                                             "text");
  const Fabric fabric = hardware.build(spec);
  const auto uplinks = [&](std::uint32_t a, std::uint32_t b) {
    std::string text;
    for (const FabricLinkId link : fabric.route({a}, {b}).links) {
      if (fabric.link(link).kind == FabricLinkKind::Uplink) text += fabric.name_of(link) + "; ";
    }
    return text;
  };
  CHECK(uplinks(0, 1) == "");
  CHECK(uplinks(0, 2) == "rack0 > row; row > rack1; ");
  CHECK(uplinks(0, 3) == "rack0 > row; row > core; core > far; ");
  CHECK(uplinks(3, 2) == "far > core; core > row; row > rack1; ");
}

TEST_CASE("what cannot be built is refused") {
  const Hardware hardware;
  const auto refused = [&](const ClusterSpec& spec) {
    try {
      (void)hardware.build(spec);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused(uniform_cluster("dgx1_v100", 9)).find("9 GPUs") != std::string::npos);
  CHECK(refused(uniform_cluster("dgx1_v100", 0)).find("0 GPUs") != std::string::npos);
  CHECK(refused(uniform_cluster("dgx1_v100", 8, 1'000'000)).find("at most") != std::string::npos);
  CHECK(refused(uniform_cluster("dgx_1_v1000", 8)).find("dgx_1_v1000") != std::string::npos);
  CHECK(refused(uniform_cluster("x99_workstation", 2, 2, "v100_pcie_16gb")).find("no network") !=
        std::string::npos);
  CHECK(refused(uniform_cluster("x99_workstation", 2)).find("take any GPU") != std::string::npos);
  ClusterSpec slow = uniform_cluster("dgx1_v100", 8);
  slow.groups[0].slow_links = {{"gpu0", "gpu5", 0.5}};
  CHECK(refused(slow).find("slow link") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
