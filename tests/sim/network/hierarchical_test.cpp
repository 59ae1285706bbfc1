#include "sim/network/hierarchical.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "tests/sim/hardware.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {
using test::Hardware;

double transfer_s(const CollectivePlan& plan, const Fabric& fabric) {
  return (time_alone(plan, fabric) - plan.latency).in_s();
}

TEST_SUITE_BEGIN("sim/network/hierarchical");

TEST_CASE("stages within nodes run on NVLink, the one across on all NICs") {
  // Four DGX A100, 8 GB. Within: 7/8 at 235 GB/s, NCCL's bound. Across: eight all-reduces of 1 GB
  // among four ranks, each over its own NIC beside a GPU of PCIe 4: 2 x 3/4 of 1 GB at 0.774
  // x 31.508 GB/s.
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx_a100", 8, 4);
  const auto& nccl = find_collective_library("nccl", "2.4");
  const auto& newer = find_collective_library("nccl", "2.10");
  const auto stages = plan_hierarchical(fabric, all_ranks(fabric), Bytes(8e9), newer, nccl);
  CHECK(transfer_s(stages[0], fabric) == doctest::Approx(7e9 / 235e9).epsilon(0.005).scale(0));
  CHECK(transfer_s(stages[2], fabric) == doctest::Approx(transfer_s(stages[0], fabric)).scale(0));
  CHECK(transfer_s(stages[1], fabric) == doctest::Approx(1.5e9 / 24.39e9).epsilon(0.005).scale(0));
}

TEST_CASE("parts that share a NIC take turns on it") {
  // Two hosts of eight cards, one FDR NIC each: eight all-reduces of 1 GB between two ranks; 8 x 1
  // GB each way through one NIC.
  const Hardware hardware;
  const Fabric fabric = hardware.build("pcie_host_2013", 8, 2, "m40");
  const auto& nccl = find_collective_library("nccl", "2.0");
  const auto stages = plan_hierarchical(fabric, all_ranks(fabric), Bytes(8e9), nccl, nccl);
  const double nic = 6.097e9 / 1.3;  // its PCIe x8 is narrower than FDR; staged
  CHECK(transfer_s(stages[1], fabric) >= 8e9 / nic * 0.99);
  CHECK(transfer_s(stages[1], fabric) <= 8e9 / nic * 2.1);  // sockets and slots are shared too
}

TEST_CASE("one node has nothing to send to others") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 8);
  const auto& nccl = find_collective_library("nccl");
  const auto stages = plan_hierarchical(fabric, all_ranks(fabric), Bytes(1e9), nccl, nccl);
  CHECK(time_alone(stages[1], fabric) == Seconds(0));
  CHECK(time_alone(stages[0], fabric) > Seconds(0));
}

TEST_CASE("plans that run together take no less than the longest and no more than their sum") {
  const Hardware hardware;
  const Fabric fabric = hardware.build("dgx1_v100", 8, 2);
  const auto& nccl = find_collective_library("nccl");
  const std::vector<Rank> first{{0}, {1}, {8}}, second{{1}, {2}, {9}, {10}};
  const std::vector<CollectivePlan> plans = {
      plan_collective(fabric, first, Collective::AllReduce, Bytes(1e8), nccl),
      plan_collective(fabric, second, Collective::AllGather, Bytes(5e8), nccl)};
  const CollectivePlan both = plan_together(plans);
  const double a = transfer_s(plans[0], fabric), b = transfer_s(plans[1], fabric);
  CHECK(transfer_s(both, fabric) >= std::max(a, b) * (1 - 1e-9));
  CHECK(transfer_s(both, fabric) <= (a + b) * (1 + 1e-9));
  // One alone is itself.
  const CollectivePlan alone = plan_together(std::span(plans).first(1));
  CHECK(time_alone(alone, fabric) == time_alone(plans[0], fabric));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
