#include "hwspecs/default_machine.hpp"

#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/peer_access.hpp"
#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("hwspecs/default_machine");

TEST_CASE("several GPUs stand in the machine they come with, cards in a host of their years") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  const MachineCatalog machines = MachineCatalog::embedded();
  struct Row {
    const char* gpu;
    int count;
    const char* machine;
  };
  const Row rows[] = {
      {"v100_sxm2_16gb", 8, "dgx1_v100"},
      {"a100_sxm4_80gb", 4, "dgx_a100"},
      {"h100_sxm5_80gb", 8, "dgx_h100"},
      {"v100_sxm3_32gb", 16, "dgx2"},
      {"k80", 8, "aws_p2_8xlarge"},
      {"k80", 16, "aws_p2_16xlarge"},
      {"k80", 64, "aws_p2_8xlarge"},  // more than any holds: several of the first
      {"b200", 8, "dgx_b200"},
      {"b300", 8, "dgx_b300"},
      {"gb200", 8, "gb200_nvl72"},
      {"gb300", 72, "gb300_nvl72"},
      {"gb200", 144, "gb200_nvl72"},
      {"gh200_96gb", 4, "gh200_quad"},
      {"gh200_144gb", 2, "gh200_nvl2"},
      {"m40", 8, "pcie_host_2013"},
      {"gtx1080ti", 4, "pcie_host_2017"},
      {"rtx3090", 4, "pcie_host_2020"},
      {"rtx4090", 8, "pcie_host_2022"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.gpu);
    CAPTURE(row.count);
    CHECK(binary().default_machine(gpus.find(row.gpu), row.count).machine == row.machine);
  }
  for (const GpuSpec& gpu : gpus.all()) {
    CAPTURE(gpu.id);
    const DefaultMachine found = binary().default_machine(gpu, 2);
    CHECK_FALSE(machines.find(found.machine).nodes_of(NodeKind::Gpu).empty());
    CHECK_FALSE(found.reason.empty());
  }
}

TEST_CASE("a list of machines without a host for every year is refused") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  const GpuSpec& gpu = gpus.find("m40");
  const MachineCatalog machines = MachineCatalog::embedded();
  const auto parse = [&](const char* text) {
    return parse_default_machine(text, "text", gpu, 2, machines);
  };
  const char* good = "card_host { from_year: 0 machine: \"pcie_host_2013\" reason: \"r\" }";
  CHECK(parse(good).machine == "pcie_host_2013");
  for (const char* bad : {"", "card_host { from_year: 2017 machine: \"pcie_host_2013\" }",
                          "card_host { from_year: 0 machine: \"pcie_host_1913\" }",
                          "card_host { from_year: 0 machine: \"dgx2\" } card_host { from_year: 0 }",
                          "usual: \"dgx9\" card_host { from_year: 0 machine: \"dgx2\" }"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((void)parse(bad), InputError);
  }
}

TEST_CASE("of one year's hosts the first with room is taken, without any the first") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  const auto machine = [&](const char* gpu, int number) {
    return SpecLibrary::embedded().default_machine(gpus.find(gpu), number).machine;
  };
  CHECK(machine("a40", 8) == "pcie_host_2020");
  CHECK(machine("a40", 10) == "pcie_host_2020_ten");
  CHECK(machine("a40", 16) == "pcie_host_2020");
  CHECK(machine("l40", 10) == "pcie_host_2022_ten");
}

TEST_CASE("what cards reach follows from product line and generation") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  struct Row {
    const char* gpu;
    bool peers, network;
  };
  const Row rows[] = {{"gtx1080ti", true, false}, {"rtx2080ti", false, false},
                      {"rtx3090", false, false},  {"titan_v", true, false},
                      {"t4", true, true},         {"v100_pcie_16gb", true, true}};
  for (const Row& row : rows) {
    CAPTURE(row.gpu);
    const PeerAccess access = peer_access(gpus.find(row.gpu));
    CHECK(access.over_pcie == row.peers);
    CHECK(access.to_network == row.network);
  }
  CHECK_THROWS_AS((void)parse_peer_access("rule { network: false }", "text", gpus.find("t4")),
                  InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
