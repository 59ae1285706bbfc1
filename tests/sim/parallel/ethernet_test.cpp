#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/network/collective.hpp"
#include "sim/parallel/communication.hpp"
#include "sim/parallel/transformer/rank_grid.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/support/specs.hpp"

// The kernel's TCP between nodes: threads copy every byte, on each NIC as many as the library of
// collectives has for its link.
namespace tracecast {
namespace {
using test::Hardware;

const char* const kEthernet[] = {"ethernet_10g", "ethernet_25g", "ethernet_100g", "ethernet_200g",
                                 "ethernet_400g"};

ClusterSpec nodes_on(const char* machine, int gpus, int nodes, const char* link,
                     const char* gpu = "") {
  ClusterSpec spec = uniform_cluster(machine, gpus, nodes, gpu);
  spec.network.link = link;
  return spec;
}

Seconds of_collective(const Fabric& fabric, Bytes bytes, const CollectiveLibrary& library) {
  return time_alone(
      plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, bytes, library), fabric);
}

/// The only bucket of a data-parallel step.
Seconds of_data_parallel(const Fabric& fabric, Bytes bytes) {
  GradientBucket bucket;
  bucket.gradients = {0};
  bucket.bytes = bytes;
  const auto communication =
      plan_communication(std::vector{bucket}, 1, find_strategy("ddp"), fabric, /*date=*/"");
  REQUIRE(communication.size() == 1);
  REQUIRE(communication[0].push.size() == 1);
  return time_alone(communication[0].push[0].transfer, fabric);
}

Seconds of_sharded(const Fabric& fabric, Bytes bytes, const CollectiveLibrary& library) {
  ParallelPlan plan;
  plan.data = fabric.num_ranks();
  return RankGrid(plan, fabric, library)
      .reduce_gradients(Collective::AllReduce, bytes, plan.data)
      .time;
}

TEST_SUITE_BEGIN("sim/parallel/ethernet");

TEST_CASE("an all-reduce takes the same time in collectives, data-parallel and sharded steps") {
  const Hardware hardware;
  const CollectiveLibrary& library = find_collective_library("nccl");
  struct Box {
    const char* machine;
    const char* gpu;
    int gpus;
  };
  // Eight NICs a node, one NIC for eight cards, one of a virtual machine.
  for (const Box& box : {Box{"dgx_a100", "", 8}, Box{"pcie_host_2020", "rtx3090", 8},
                         Box{"aws_p3_16xlarge", "", 8}}) {
    for (const double mib : {1.0, 100.0, 1024.0}) {
      Seconds before{1e9};
      for (const char* link : kEthernet) {
        CAPTURE(box.machine);
        CAPTURE(mib);
        CAPTURE(link);
        const Fabric fabric = hardware.build(nodes_on(box.machine, box.gpus, 4, link, box.gpu));
        const Bytes bytes(mib * (1 << 20));
        const Seconds alone = of_collective(fabric, bytes, library);
        CHECK(of_data_parallel(fabric, bytes) / alone == doctest::Approx(1).epsilon(0.02));
        CHECK(of_sharded(fabric, bytes, library) / alone == doctest::Approx(1).epsilon(0.02));
        // A faster link is never slower, and faster up to 100 Gb/s, beyond which PCIe holds what
        // goes through host memory.
        CHECK(alone <= before);
        if (mib > 1 && (link == kEthernet[1] || link == kEthernet[2])) CHECK(alone < 0.7 * before);
        before = alone;
      }
    }
  }
}

TEST_CASE("threads that serve sockets bound what TCP carries, by link, processor and library") {
  const Hardware hardware;
  const double thread = rank_variation().tcp_thread.in_gb_per_s();
  const std::string& seen_on = rank_variation().tcp_cpu;
  CHECK(hardware.links.find(rank_variation().tcp_link).is_tcp());
  const auto bus = [&](const char* machine, const char* gpu, const char* link,
                       const char* version) {
    const Fabric fabric = hardware.build(nodes_on(machine, 4, 16, link, gpu));
    const auto ranks = all_ranks(fabric);
    const Bytes bytes(4e9);
    const Seconds time = of_collective(fabric, bytes, find_collective_library("nccl", version));
    return (bytes * bus_factor(Collective::AllReduce, ranks.size()) / time).in_gb_per_s();
  };
  const auto speed_of = [&](const char* machine) {
    return hardware.cpus.find(hardware.machines.find(machine).cpu).single_thread_speed() /
           hardware.cpus.find(seen_on).single_thread_speed();
  };
  // The measured row: 40 Gb/s, one thread of NCCL 2.0, one NIC; other processors as their threads
  // are faster.
  const double faster = speed_of("pcie_host_2022");
  CHECK(speed_of("pcie_host_2013") == 1);
  CHECK(faster > 1.3);
  CHECK(bus("pcie_host_2013", "p100_pcie_16gb", "ethernet_40g", "2.0") ==
        doctest::Approx(thread).epsilon(0.02));
  CHECK(bus("pcie_host_2022", "p100_pcie_16gb", "ethernet_100g", "2.0") ==
        doctest::Approx(thread * faster).epsilon(0.02));
  // One thread whatever the link before NCCL has more; then one for each 25 Gb/s.
  CHECK(bus("pcie_host_2022", "p100_pcie_16gb", "ethernet_400g", "2.0") ==
        doctest::Approx(thread * faster).epsilon(0.02));
  CHECK(bus("pcie_host_2013", "p100_pcie_16gb", "ethernet_100g", "2.9") >
        2 * bus("pcie_host_2013", "p100_pcie_16gb", "ethernet_40g", "2.9"));
  const CollectiveLibrary& newest = find_collective_library("nccl");
  for (const auto& [gb_per_s, threads] : {std::pair(1.25, 1),
                                          {3.125, 1},
                                          {5.0, 1},
                                          {6.25, 2},
                                          {12.5, 4},
                                          {25.0, 8},
                                          {50.0, 16},
                                          {100.0, 16}}) {
    CAPTURE(gb_per_s);
    CHECK(newest.socket_threads(BytesPerSecond(1e9 * gb_per_s), 1000) == threads);
  }
  CHECK(newest.socket_threads(BytesPerSecond(50e9), 3) == 3);
  CHECK(newest.socket_threads(BytesPerSecond(50e9), 0) == 1);
}

TEST_CASE("what passes the kernel by has no such bound: InfiniBand and adapters that bypass it") {
  const Hardware hardware;
  for (const LinkSpec& link : hardware.links.all()) {
    CAPTURE(link.id);
    const bool is_network = link.kind == LinkKind::Ethernet || link.kind == LinkKind::Infiniband ||
                            link.kind == LinkKind::Ipoib;
    if (!is_network) {
      CHECK_FALSE(link.is_tcp());
      continue;
    }
    const Fabric fabric =
        hardware.build(nodes_on("pcie_host_2020", 2, 2, link.id.c_str(), "rtx3090"));
    CHECK(fabric.link(fabric.network_link({0})).sockets.are_needed() == link.is_tcp());
    const auto plan = plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(1e9),
                                      find_collective_library("nccl", "2.0"));
    if (!link.is_tcp()) CHECK_FALSE(plan.is_held_by_sockets);
  }
  CHECK_FALSE(hardware.links.find("efa_100g").is_tcp());
  CHECK(hardware.links.find("ipoib_edr").is_tcp());
}

TEST_CASE("messages have the threads of each rank that sends them") {
  const Hardware hardware;
  const Fabric fabric = hardware.build(nodes_on("pcie_host_2013", 4, 2, "ethernet_40g", "m40"));
  const CollectiveLibrary& library = find_collective_library("nccl", "2.0");
  const double each = fabric.link(fabric.network_link({0})).sockets.each.in_gb_per_s();
  const auto ranks = all_ranks(fabric);
  // Four of the seven others are on the other node.
  const auto all = plan_collective(fabric, ranks, Collective::AllToAll, Bytes(1e9), library);
  REQUIRE(all.rate_cap.has_value());
  CHECK(all.rate_cap->in_gb_per_s() == doctest::Approx(each / 4));
  const std::vector<Rank> across{{0}, {4}}, within{{0}, {1}};
  const auto one = plan_collective(fabric, across, Collective::SendReceive, Bytes(1e9), library);
  REQUIRE(one.rate_cap.has_value());
  CHECK(one.rate_cap->in_gb_per_s() == doctest::Approx(each));
  CHECK_FALSE(plan_collective(fabric, within, Collective::SendReceive, Bytes(1e9), library)
                  .is_held_by_sockets);
}

TEST_CASE("a fabric says how many NICs a node has and of which link") {
  const Hardware hardware;
  const auto of = [&](const char* machine, int nodes, const char* link) {
    return hardware.build(nodes_on(machine, 8, nodes, link)).nics();
  };
  CHECK(of("dgx_a100", 1, "").empty());
  const auto own = of("dgx_a100", 4, "");
  REQUIRE(own.size() == 1);
  CHECK(own[0].nodes == 4);
  CHECK(own[0].per_node == 8);
  CHECK(own[0].link == "infiniband_hdr");
  const auto replaced = of("dgx1_v100", 2, "ethernet_25g");
  REQUIRE(replaced.size() == 1);
  CHECK(replaced[0].per_node == 4);
  CHECK(replaced[0].link == "ethernet_25g");
  CHECK(replaced[0].line_rate.in_gb_per_s() == doctest::Approx(3.125));
  ClusterSpec mixed = nodes_on("dgx_a100", 8, 2, "");
  mixed.groups.push_back(uniform_cluster("aws_p3_16xlarge", 8, 3).groups.front());
  const auto both = hardware.build(mixed).nics();
  REQUIRE(both.size() == 2);
  CHECK(both[1].nodes == 3);
  CHECK(both[1].per_node == 1);
  CHECK(both[1].link == "ethernet_25g");
}

TEST_CASE("a node has as many NICs as the cluster says, spread over its own") {
  const Hardware hardware;
  const auto with = [&](const char* machine, int count) {
    ClusterSpec spec = nodes_on(machine, 8, 2, "ethernet_100g");
    spec.network.nics_per_node = count;
    return hardware.build(spec);
  };
  const auto per_node = [](const Fabric& fabric) {
    int sum = 0;
    for (const NodeNics& nics : fabric.nics()) sum += nics.per_node;
    return sum;
  };
  for (const int count : {1, 2, 3, 8, 12, 16}) {
    CAPTURE(count);
    CHECK(per_node(with("dgx_a100", count)) == count);
  }
  // One NIC for all GPUs; two: the halves of the machine have one each.
  std::set<std::uint32_t> ports;
  const Fabric two = with("dgx_a100", 2);
  for (std::uint32_t r = 0; r < 8; ++r) ports.insert(two.port_of({r}));
  CHECK(ports.size() == 2);
  CHECK(two.port_of({0}) != two.port_of({7}));
  // In a rack each of its hosts has so many.
  ClusterSpec rack = nodes_on("gb200_nvl72", 72, 2, "ethernet_400g");
  rack.network.nics_per_node = 1;
  CHECK(per_node(hardware.build(rack)) == 18);
}

TEST_CASE("more NICs and faster links never make a collective slower, whatever the nodes") {
  const Hardware hardware;
  const CollectiveLibrary& library = find_collective_library("nccl");
  const std::vector<std::vector<const char*>> families = {
      {"ethernet_10g", "ethernet_25g", "ethernet_40g", "ethernet_100g", "ethernet_200g",
       "ethernet_400g"},
      {"roce_25g", "roce_40g", "roce_100g", "roce_200g", "roce_400g"},
      {"infiniband_qdr", "infiniband_fdr", "infiniband_edr", "infiniband_hdr", "infiniband_ndr"}};
  for (const auto& [machine, gpu] :
       {std::pair("dgx_a100", ""), {"pcie_host_2020", "rtx3090"}, {"dgx1_v100", ""}}) {
    for (const int nodes : {2, 4, 16}) {
      for (const double mib : {0.1, 4.0, 100.0, 1024.0}) {
        for (const auto& family : families) {
          Seconds slower{1e9};
          for (const char* link : family) {
            Seconds fewer{1e9};
            for (const int count : {1, 2, 4, 8}) {
              CAPTURE(machine);
              CAPTURE(nodes);
              CAPTURE(mib);
              CAPTURE(link);
              CAPTURE(count);
              ClusterSpec spec = nodes_on(machine, 8, nodes, link, gpu);
              spec.network.nics_per_node = count;
              const Seconds time =
                  of_collective(hardware.build(spec), Bytes(mib * (1 << 20)), library);
              CHECK(time <= fewer * 1.02);
              if (count == 1) {
                CHECK(time <= slower * 1.02);
                slower = time;
              }
              fewer = time;
            }
          }
        }
      }
    }
  }
}

TEST_CASE("RoCE reaches GPU memory as InfiniBand does, and TCP of the same rate is slower") {
  const Hardware hardware;
  const CollectiveLibrary& library = find_collective_library("nccl");
  const auto time = [&](const char* link) {
    return of_collective(hardware.build(nodes_on("dgx_a100", 8, 4, link)), Bytes(1e9), library);
  };
  CHECK(time("roce_100g") / time("infiniband_edr") == doctest::Approx(1).epsilon(0.03));
  CHECK(time("ethernet_100g") > 1.2 * time("roce_100g"));
  const Fabric roce = hardware.build(nodes_on("dgx_a100", 8, 2, "roce_100g"));
  CHECK_FALSE(roce.route({0}, {8}).is_staged);
  CHECK(hardware.build(nodes_on("dgx_a100", 8, 2, "ethernet_100g")).route({0}, {8}).is_staged);
}

TEST_CASE("without peer access nothing goes over NVLink or from card to card") {
  const Hardware hardware;
  const CollectiveLibrary& library = find_collective_library("nccl");
  for (const auto& [machine, gpu, gpus] : {std::tuple("dgx_a100", "", 8),
                                           {"dgx1_v100", "", 4},
                                           {"pcie_host_2020", "rtx_a6000", 4},
                                           {"pcie_host_2020", "rtx3090", 2}}) {
    CAPTURE(machine);
    CAPTURE(gpu);
    ClusterSpec spec = uniform_cluster(machine, gpus, 1, gpu);
    const Fabric with = hardware.build(spec);
    spec.no_p2p = true;
    const Fabric without = hardware.build(spec);
    for (std::uint32_t a = 0; a < static_cast<std::uint32_t>(gpus); ++a) {
      for (std::uint32_t b = 0; b < static_cast<std::uint32_t>(gpus); ++b) {
        if (a == b) continue;
        CHECK(without.route({a}, {b}).is_staged);
        CHECK(without.bricks_between({a}, {b}) == 0);
      }
    }
    for (const double mib : {0.01, 1.0, 100.0}) {
      const Bytes bytes(mib * (1 << 20));
      CHECK(of_collective(without, bytes, library) >= 0.999 * of_collective(with, bytes, library));
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
