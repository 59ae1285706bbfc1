#include "sim/network/collective.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "sim/base/random.hpp"
#include "tests/sim/hardware.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using test::Hardware;

double bus_gb_per_s(const Fabric& fabric, const CollectiveLibrary& library, Bytes bytes,
                    Collective collective = Collective::AllReduce) {
  const auto ranks = all_ranks(fabric);
  const Seconds time =
      time_alone(plan_collective(fabric, ranks, collective, bytes, library), fabric);
  return (bytes * bus_factor(collective, ranks.size()) / time).in_gb_per_s();
}

constexpr Bytes kLarge(4e9);

TEST_SUITE_BEGIN("sim/network/collective");

TEST_CASE("large all-reduces run at the bandwidth of their narrowest link") {
  const Hardware hardware;
  struct Row {
    const char* what;
    const char* machine;
    const char* gpu;
    const char* version;
    int gpus, nodes;
    double gb_per_s;
  };
  const RingEfficiency& simple = *binary().collective_efficiency().find_ring(
      EfficiencyLink::Nvlink, CollectiveProtocol::Simple);
  const Row rows[] = {
      // NVLink 2 carries 0.9 x 25 GB/s a brick; rings are counted in ring_search_test.
      {"one brick between GPU 0 and 1", "dgx1_v100", "", "2.10", 2, 1, 22.5},
      {"two rings of a triangle", "dgx1_v100", "", "2.10", 3, 1, 45},
      {"four rings of a quad", "dgx1_v100", "", "2.10", 4, 1, 90},
      {"six rings", "dgx1_v100", "", "2.10", 8, 1, 135},
      {"six bricks into the switch", "dgx2", "", "2.10", 16, 1, 135},
      // Fourteen steps and the chunk that each GPU copies, at the fitted pace of its kernels.
      {"twelve bricks of 0.8 x 25", "dgx_a100", "", "2.10", 8, 1,
       240 * simple.link_fraction * 14 / (14 + simple.local_once)},
      // PCIe 3: 0.774 x 15.754 = 12.19 GB/s; through the host bridge 1.1 times the traffic.
      {"below one switch", "pcie_host_2017", "gtx1080ti", "2.0", 2, 1, 12.19},
      {"over the host bridge", "pcie_host_2017", "gtx1080ti", "2.0", 4, 1, 12.19 / 1.1},
      {"over UPI: 3 x 20.8 x 0.14", "pcie_host_2017", "gtx1080ti", "2.0", 8, 1, 8.736},
      // Four EDR NICs of 0.984 x 12.5 GB/s, each beside a GPU whose PCIe 3 carries 12.19 GB/s.
      {"four NICs a node", "dgx1_v100", "", "2.3", 8, 4, 48.77},
      // Each GPU's NIC carries 0.984 x 25 GB/s, its PCIe 4 0.774 x 31.508 = 24.39.
      {"eight NICs a node", "dgx_a100", "", "2.10", 8, 4, 195.1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Fabric fabric = hardware.build(row.machine, row.gpus, row.nodes, row.gpu);
    const auto& library = find_collective_library("nccl", row.version);
    CHECK(bus_gb_per_s(fabric, library, kLarge) == doctest::Approx(row.gb_per_s).epsilon(0.01));
  }
}

TEST_CASE("a ring of one link costs base latency, steps and bytes") {
  // NCCL 2.0, two M40 in x8 slots: 8.4 us + 2 steps x 5.7 us + bytes x 1.1 / (0.774 x 7.877 GB/s).
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2013", 2, 1, "m40");
  const auto ranks = all_ranks(fabric);
  const auto plan = plan_collective(fabric, ranks, Collective::AllReduce, Bytes(1e6),
                                    find_collective_library("nccl", "2.0"));
  CHECK(plan.algorithm == CollectiveAlgorithm::Ring);
  CHECK(plan.protocol == CollectiveProtocol::Simple);
  CHECK(plan.latency.in_us() == doctest::Approx(19.8));
  CHECK(time_alone(plan, fabric).in_us() ==
        doctest::Approx(19.8 + 1e6 * 1.1 / (0.774 * 7.877e9) * 1e6));
}

TEST_CASE("small messages take low latency, many nodes take trees, Hopper reduces in the switch") {
  const Hardware hardware;
  struct Row {
    const char* what;
    const char* machine;
    const char* version;
    int nodes;
    double bytes;
    CollectiveAlgorithm algorithm;
  };
  const Row rows[] = {
      {"2.0 has rings alone", "dgx1_v100", "2.0", 64, 1e4, CollectiveAlgorithm::Ring},
      {"2.4 has trees between nodes", "dgx1_v100", "2.4", 64, 1e4, CollectiveAlgorithm::Tree},
      {"a large buffer on few nodes goes around", "dgx1_v100", "2.10", 2, 1e9,
       CollectiveAlgorithm::Ring},
      {"NVLink SHARP", "dgx_h100", "2.18", 1, 1e9, CollectiveAlgorithm::Nvls},
      {"not before 2.17", "dgx_h100", "2.16", 1, 1e9, CollectiveAlgorithm::Ring},
      {"not on A100", "dgx_a100", "2.18", 1, 1e9, CollectiveAlgorithm::Ring},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Fabric fabric = hardware.build(row.machine, 8, row.nodes);
    const auto plan =
        plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(row.bytes),
                        find_collective_library("nccl", row.version));
    CHECK(plan.algorithm == row.algorithm);
  }
  const Fabric fabric = hardware.build("dgx_a100", 8);
  const auto& library = find_collective_library("nccl", "2.10");
  const Communicator all(fabric, all_ranks(fabric), library);
  CHECK(all.plan(Collective::AllReduce, Bytes(1e3)).protocol == CollectiveProtocol::LowLatency);
  CHECK(all.plan(Collective::AllReduce, Bytes(1e9)).protocol == CollectiveProtocol::Simple);
}

TEST_CASE(
    "an all-reduce in a switch that reduces sends every buffer once and its own share again") {
  // 18 bricks of 0.824 x 25 GB/s, as much of it as the pace says; S (1 + 1/8) over each link.
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx_h100", 8);
  const auto plan = plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(1e9),
                                    find_collective_library("nccl", "2.18"));
  const double links = 18 * 25e9 * 0.824 * binary().collective_efficiency().nvls.link_fraction;
  CHECK((time_alone(plan, fabric) - plan.latency).in_s() ==
        doctest::Approx(1e9 * 1.125 / links).epsilon(1e-3).scale(0));
}

TEST_CASE(
    "between nodes that reduce in the switch a NIC carries its part of the buffer once or twice") {
  // DGX H100: eight NICs of 0.984 x 50 GB/s; NVLinks of 370.8 GB/s, 0.85 of it, carry S (1 + 1/8).
  const Hardware hardware;
  const Bytes bytes(4e9);
  const double within = 1.125 / (18 * 25e9 * 0.824 * 0.85);
  struct Row {
    const char* what;
    const char* library;
    int nodes;
    double seconds_per_byte;
  };
  const Row rows[] = {
      {"two nodes communication it: NVLink holds it", "nccl", 2, within},
      {"a double tree: twice over the NICs", "nccl", 8, 2 / (8 * 50e9 * 0.984)},
      {"the network reduces: NVLink holds it", "nccl_sharp", 8, within},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Fabric fabric = hardware.build("dgx_h100", 8, row.nodes);
    const auto plan = plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, bytes,
                                      find_collective_library(row.library));
    CHECK(plan.algorithm == CollectiveAlgorithm::Nvls);
    CHECK((time_alone(plan, fabric) - plan.latency).in_s() ==
          doctest::Approx(row.seconds_per_byte * bytes.in_bytes()).epsilon(0.01).scale(0));
  }
}

TEST_CASE("reduce-scatter and all-gather are the halves of a ring all-reduce") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx_a100", 8, 2);
  const Communicator all(fabric, all_ranks(fabric), find_collective_library("nccl", "2.10"));
  const auto of = [&](Collective c) { return time_alone(all.plan(c, Bytes(4e9)), fabric).in_s(); };
  CHECK(of(Collective::ReduceScatter) == doctest::Approx(of(Collective::AllGather)).scale(0));
  CHECK(of(Collective::ReduceScatter) ==
        doctest::Approx(of(Collective::AllReduce) / 2).epsilon(0.02).scale(0));
}

TEST_CASE("an all-to-all sends 1/N of the buffer to every other rank") {
  // Two DGX A100: of each GPU's buffer half goes to the other node, over a NIC of its own and PCIe
  // 4: 24.39 GB/s.
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx_a100", 8, 2);
  const auto plan = plan_collective(fabric, all_ranks(fabric), Collective::AllToAll, Bytes(16e9),
                                    find_collective_library("nccl", "2.10"));
  CHECK(time_alone(plan, fabric).in_s() == doctest::Approx(8e9 / 24.39e9).epsilon(0.002));
}

TEST_CASE("Caffe's tree copies the whole buffer once per level, up and down") {
  // Eight GPUs of DGX-1 with P100: three levels of heap order. Slowest copy per level: NVLink 0-1,
  // 0-2 (18 GB/s each); 1-3, 1-4, 2-5, 2-6; 3-7. 1-4 and 2-5 have no NVLink and cross the sockets,
  // one in each direction: 6 GB/s.
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_p100", 8);
  const auto& tree = find_collective_library("gpu_tree");
  const auto plan =
      plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(1e9), tree);
  const double qpi = 2 * 19.2e9 * 0.156;
  const double expected = 2 * (1e9 / 18e9 + 2e9 / qpi + 1e9 / 18e9);
  CHECK((time_alone(plan, fabric) - plan.latency).in_s() == doctest::Approx(expected));
  const auto down =
      plan_collective(fabric, all_ranks(fabric), Collective::Broadcast, Bytes(1e9), tree);
  CHECK((time_alone(down, fabric) - down.latency).in_s() == doctest::Approx(expected / 2));
}

TEST_CASE("host steps send a chunk leg after leg") {
  // Two x8 PCIe 3 cards below one socket: to the host and from it, 6.097 GB/s each, one after the
  // other.
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2013", 2, 1, "m40");
  const auto& ring = find_collective_library("baidu_ring");
  const double leg = 0.774 * 7.877;
  CHECK(bus_gb_per_s(fabric, ring, kLarge) == doctest::Approx(leg / 2).epsilon(0.01));
}

TEST_CASE("a slower network adds its latency to every step between nodes") {
  // Two nodes, low latency in a tree: two steps. EFA takes 15 us a message, InfiniBand FDR 0.7 us.
  const Hardware hardware;
  ClusterSpec spec = uniform_cluster("dgx1_v100", 8, 2);
  const auto latency = [&](const char* link) {
    spec.network.link = link;
    const Fabric fabric = hardware.build(spec);
    return plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(8),
                           find_collective_library("nccl", "2.10"))
        .latency;
  };
  CHECK((latency("efa_100g") - latency("infiniband_fdr")).in_us() == doctest::Approx(2 * 14.3));
  CHECK(latency("infiniband_edr") == latency("infiniband_fdr"));
}

/// NCCL 2.10 with one algorithm and protocol, or several, and nothing else.
CollectiveLibrary nccl_of(std::vector<CollectivePath> paths) {
  CollectiveLibrary library = find_collective_library("nccl", "2.10");
  library.paths = std::move(paths);
  return library;
}

TEST_CASE("a tree goes up and down: a chain of the GPUs within nodes, a binary tree between them") {
  // base + 2 ((GPUs of a node - 1) 0.5 us + floor(log2 nodes) 5 us); InfiniBand EDR adds nothing to
  // the 5 us.
  const Hardware hardware;
  CollectivePath tree;
  tree.algorithm = CollectiveAlgorithm::Tree;
  tree.protocol = CollectiveProtocol::LowLatency;
  tree.base = 4.0_us;
  tree.nvlink_step = 0.5_us;
  tree.network_step = 5.0_us;
  const CollectiveLibrary library = nccl_of({tree});
  struct Row {
    int gpus, nodes;
    double latency_us;
  };
  const Row rows[] = {{1, 2, 4 + 2 * 5},           {1, 4, 4 + 2 * (2 * 5)},
                      {2, 2, 4 + 2 * (0.5 + 5)},   {8, 2, 4 + 2 * (7 * 0.5 + 5)},
                      {8, 3, 4 + 2 * (3.5 + 5)},   {8, 4, 4 + 2 * (3.5 + 2 * 5)},
                      {4, 16, 4 + 2 * (1.5 + 20)}, {8, 64, 4 + 2 * (3.5 + 30)}};
  for (const Row& row : rows) {
    CAPTURE(row.gpus);
    CAPTURE(row.nodes);
    const Fabric fabric = hardware.build("dgx1_v100", row.gpus, row.nodes);
    const auto plan =
        plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(8), library);
    CHECK(plan.algorithm == CollectiveAlgorithm::Tree);
    CHECK(plan.latency.in_us() == doctest::Approx(row.latency_us));
  }
}

TEST_CASE("what channels carry at most is by the number of nodes: one, two, more") {
  // NCCL 2.10 on Volta: a channel of a tree 26.5, 18.5 and 10 GB/s with the simple protocol; all
  // channels together 39, 39 and 20.4 GB/s with low latency.
  const Hardware hardware;
  const CollectiveLibrary& nccl = find_collective_library("nccl", "2.10");
  const auto only = [&](CollectiveAlgorithm algorithm, CollectiveProtocol protocol) {
    std::vector<CollectivePath> paths;
    for (const CollectivePath& path : nccl.paths) {
      if (path.algorithm == algorithm && path.protocol == protocol) paths.push_back(path);
    }
    return nccl_of(std::move(paths));
  };
  const auto tree = only(CollectiveAlgorithm::Tree, CollectiveProtocol::Simple);
  const auto ring = only(CollectiveAlgorithm::Ring, CollectiveProtocol::LowLatency);
  struct Row {
    int nodes;
    double channel_gb_per_s, all_gb_per_s;
  };
  for (const Row& row : {Row{1, 26.5, 39}, {2, 18.5, 39}, {3, 10, 20.4}, {16, 10, 20.4}}) {
    CAPTURE(row.nodes);
    const Fabric fabric = hardware.build("dgx1_v100", 8, row.nodes);
    const auto plan = [&](const CollectiveLibrary& library) {
      return plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(1e6), library);
    };
    const CollectivePlan by_tree = plan(tree), by_ring = plan(ring);
    REQUIRE(by_tree.rate_cap);
    REQUIRE(by_ring.rate_cap);
    CHECK(by_tree.rate_cap->in_gb_per_s() ==
          doctest::Approx(row.channel_gb_per_s * by_tree.channels));
    CHECK(by_ring.rate_cap->in_gb_per_s() == doctest::Approx(row.all_gb_per_s));
  }
}

TEST_CASE(
    "within a node a library counts on whole channels, between nodes on what the NICs carry") {
  // One protocol takes 10 us and the whole bandwidth B, the other no time and half of it: with n
  // bytes on an edge the first is believed to be quicker where n / B > 10 us. A DGX H100 has
  // NVLinks of 18 x 25 x 0.824 = 370.8 GB/s, eight NICs of 0.984 x 50 = 49.2 GB/s; channels of 250
  // GB/s: one of them fits. n = 3.2 MB.
  const Hardware hardware;
  CollectivePath late, low;
  late.protocol = CollectiveProtocol::Simple;
  late.base = 10.0_us;
  low.protocol = CollectiveProtocol::LowLatency;
  low.bandwidth_fraction = 0.5;
  CollectiveLibrary library = nccl_of({low, late});
  library.caps.clear();
  library.channel_speeds = {{90, {BytesPerSecond(250e9)}}};
  struct Row {
    const char* what;
    int nodes;
    CollectiveProtocol protocol;
  };
  const Row rows[] = {
      {"3.2 MB / 250 GB/s = 12.8 us", 1, CollectiveProtocol::Simple},
      {"3.2 MB / 370.8 GB/s = 8.6 us at most", 2, CollectiveProtocol::LowLatency},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Fabric fabric = hardware.build("dgx_h100", 8, row.nodes);
    const auto ranks = all_ranks(fabric);
    const Bytes bytes(3.2e6 / bus_factor(Collective::AllReduce, ranks.size()));
    CHECK(plan_collective(fabric, ranks, Collective::AllReduce, bytes, library).protocol ==
          row.protocol);
  }
}

TEST_CASE("one rank and no bytes cost nothing") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 8);
  const auto& library = find_collective_library("nccl");
  const auto ranks = all_ranks(fabric);
  for (const Collective c : {Collective::AllReduce, Collective::Broadcast, Collective::AllToAll}) {
    CHECK(time_alone(plan_collective(fabric, std::span(ranks).first(1), c, Bytes(1e6), library),
                     fabric) == Seconds(0));
    CHECK(time_alone(plan_collective(fabric, ranks, c, Bytes(0), library), fabric) == Seconds(0));
  }
}

TEST_CASE("more bytes and slower links never make a collective faster") {
  const Hardware hardware;
  Random random(11);
  for (const char* id : {"nccl", "mpi", "gpu_tree", "gloo"}) {
    const auto& library = find_collective_library(id);
    for (const char* machine : {"dgx1_v100", "dgx_a100", "ibm_s822lc", "aws_p2_8xlarge"}) {
      for (const Collective c : {Collective::AllReduce, Collective::AllGather, Collective::Reduce,
                                 Collective::AllToAll, Collective::SendReceive}) {
        CAPTURE(id);
        CAPTURE(machine);
        CAPTURE(to_string(c));
        ClusterSpec spec = uniform_cluster(machine, 4, 2);
        const Fabric healthy = hardware.build(spec);
        spec.groups[0].slow_links = {{"nic0", "network", 0.3}};
        const Fabric slow = hardware.build(spec);
        Seconds before{};
        double bytes = 1000;
        for (int i = 0; i < 12; ++i) {
          bytes *= 1 + 4 * random.uniform();
          const auto time = [&](const Fabric& fabric) {
            return time_alone(plan_collective(fabric, all_ranks(fabric), c, Bytes(bytes), library),
                              fabric);
          };
          CHECK(time(healthy) >= before * (1 - 1e-9));
          CHECK(time(slow) >= time(healthy) * (1 - 1e-9));
          before = time(healthy);
        }
      }
    }
  }
}

TEST_CASE("GPUs without peer access are never faster than the same with it") {
  const Hardware hardware;
  for (const char* id :
       {"rtx_a6000", "a40", "l40s", "rtx_pro_6000", "quadro_rtx8000", "t4", "a10"}) {
    // A card of the name is one of the line whose driver gives none.
    const SpecLibrary without = hardware.specs.with_changed<GpuSpec>([&](GpuSpec gpu) {
      if (gpu.id == id) gpu.name = "GeForce " + gpu.name;
      return gpu;
    });
    const GpuSpec& gpu = hardware.gpus.find(id);
    REQUIRE(hardware.specs.peer_access(gpu).over_pcie);
    REQUIRE_FALSE(without.peer_access(without.gpus().find(id)).over_pcie);
    for (const char* machine : {"pcie_host_2013", "pcie_host_2017", "pcie_host_2020",
                                "pcie_host_2022", "pcie_host_2022_ten"}) {
      for (const int gpus : {2, 3, 4, 8}) {
        const ClusterSpec spec = uniform_cluster(machine, gpus, 1, id);
        const Fabric with_access = hardware.build(spec), staged = build_fabric(spec, without);
        for (const Collective c :
             {Collective::AllReduce, Collective::AllGather, Collective::Broadcast,
              Collective::AllToAll, Collective::SendReceive}) {
          for (const double bytes : {1e3, 1e5, 1e7, 1e9}) {
            CAPTURE(id);
            CAPTURE(machine);
            CAPTURE(gpus);
            CAPTURE(to_string(c));
            CAPTURE(bytes);
            const auto time = [&](const Fabric& fabric) {
              return time_alone(plan_collective(fabric, all_ranks(fabric), c, Bytes(bytes),
                                                find_collective_library("nccl")),
                                fabric);
            };
            CHECK(time(staged) >= time(with_access) * (1 - 1e-9));
          }
        }
      }
    }
  }
}

TEST_CASE("on the host of its years a card's PCIe generation decides what a collective takes") {
  const Hardware hardware;
  const auto time_of = [&](const SpecLibrary& specs, const std::string& gpu, int gpus) {
    const std::string machine = specs.default_machine(specs.gpus().find(gpu), gpus).machine;
    const Fabric fabric = build_fabric(uniform_cluster(machine, gpus, 1, gpu), specs);
    return time_alone(plan_collective(fabric, all_ranks(fabric), Collective::AllReduce, Bytes(1e9),
                                      find_collective_library("nccl")),
                      fabric);
  };
  // The same card, one generation older.
  const SpecLibrary older = hardware.specs.with_changed<GpuSpec>([](GpuSpec gpu) {
    gpu.pcie_bandwidth = gpu.pcie_bandwidth * 0.5;
    return gpu;
  });
  int cards = 0;
  for (const GpuSpec& gpu : hardware.gpus.all()) {
    if (gpu.release_year < 2020 || gpu.nvlink_bandwidth > BytesPerSecond(0)) continue;
    if (!hardware.specs.default_machine(gpu, 8).machine.starts_with("pcie_host")) continue;
    for (const int gpus : {2, 4, 8}) {
      CAPTURE(gpu.id);
      CAPTURE(gpus);
      // Eight stand on two sockets, whose link may be what holds the ring.
      const double least = gpus < 8 ? 1.3 : 1 - 1e-9;
      CHECK(time_of(older, gpu.id, gpus) >= least * time_of(hardware.specs, gpu.id, gpus));
      ++cards;
    }
  }
  CHECK(cards > 20);
  for (const int gpus : {2, 4}) {
    CHECK(time_of(hardware.specs, "rtx4090", gpus) >
          1.3 * time_of(hardware.specs, "rtx5090", gpus));
  }
  CHECK(time_of(hardware.specs, "rtx4090", 8) >= 0.99 * time_of(hardware.specs, "rtx5090", 8));
}

TEST_CASE("a thousand nodes are planned at once") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx_a100", 8, 1250);
  CHECK(bus_gb_per_s(fabric, find_collective_library("nccl"), Bytes(1e11)) ==
        doctest::Approx(195.1).epsilon(0.2));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
