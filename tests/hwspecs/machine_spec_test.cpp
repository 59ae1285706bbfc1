#include "hwspecs/machine_spec.hpp"

#include <doctest/doctest.h>

#include "hwspecs/disk_spec.hpp"
#include "hwspecs/link_spec.hpp"
#include "hwspecs/loaders/cpu_loader.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/random.hpp"
#include "tests/hwspecs/spec_checks.hpp"

TEST_SUITE_BEGIN("hwspecs/machine_spec");

namespace tracecast {
namespace {

/// Two sockets; gpu0 behind a switch, gpu1 straight on the second socket; two NVLinks between them.
const std::string kBox = R"spec(id: "box"
name: "Box"
sources { key: "us" title: "This test" where: "kBox" }
cpu { value: "e5_2698_v4" source: "us" }
sockets { value: 2 source: "us" }
hardware_threads { value: 80 source: "us" }
memory_gib { value: 512 source: "us" }
gpu { value: "v100_sxm2_16gb" source: "us" }
disk { id: "sata_ssd" count: 2 source: "us" }
node { name: "cpu0" kind: SOCKET source: "us" }
node { name: "cpu1" kind: SOCKET source: "us" }
node { name: "plx0" kind: PCIE_SWITCH source: "us" }
node { name: "gpu0" kind: GPU source: "us" }
node { name: "gpu1" kind: GPU source: "us" }
link { a: "cpu0" b: "cpu1" id: "qpi_9_6" source: "us" }
link { a: "plx0" b: "cpu0" id: "pcie3_x16" source: "us" }
link { a: "gpu0" b: "plx0" id: "pcie3_x8" source: "us" }
link { a: "gpu1" b: "cpu1" id: "pcie3_x16" source: "us" }
link { a: "gpu0" b: "gpu1" id: "nvlink2" count: 2 source: "us" }
)spec";

/// NVLinks of one GPU slot.
int nvlinks_of(const MachineSpec& machine, std::uint32_t gpu, const LinkCatalog& links) {
  int count = 0;
  for (const MachineLink& link : machine.links) {
    if (links.find(link.link).kind == LinkKind::Nvlink && (link.a == gpu || link.b == gpu))
      count += link.count;
  }
  return count;
}

TEST_CASE("a machine is a graph: its GPUs reach a socket over PCIe, not over their neighbours") {
  const MachineSpec box = load_machine_spec(kBox, "x");
  const auto gpus = box.nodes_of(NodeKind::Gpu);
  REQUIRE(gpus.size() == 2);
  const auto path = box.path_to_socket(gpus[0]);
  REQUIRE(path.size() == 2);  // gpu0 - plx0 - cpu0
  CHECK(path[0]->link == "pcie3_x8");
  CHECK(path[1]->link == "pcie3_x16");
  CHECK(box.path_to_socket(gpus[1]).size() == 1);
  CHECK(box.path_to_socket(0).empty());  // a socket is no GPU
  CHECK(box.path_to_socket(99).empty());
  CHECK(box.links_between(gpus[0], gpus[1]) == 2);
  CHECK(box.links_between(gpus[1], gpus[0]) == 2);
  CHECK(box.disks.at(0).count == 2);
  CHECK(box.hosts == 1);
  CHECK(box.memory == Bytes(512.0 * 1024 * 1024 * 1024));
  const MachineSpec pair = load_machine_spec(
      test::replace(kBox, "memory_gib {",
                    "hosts { value: 2 source: \"us\" } slot { value: SXM2 source: "
                    "\"us\" } memory_gib {"),
      "x");
  CHECK(pair.hosts == 2);
  CHECK(pair.slot == FormFactor::Sxm2);
}

TEST_CASE("a wrong machine is refused in one line that names the field") {
  struct Row {
    const char* what;
    const char* from;
    const char* to;
    const char* message;
  };
  const Row rows[] = {
      {"a link to nowhere", "a: \"plx0\"", "a: \"plx1\"", ":16: found link to \"plx1\""},
      {"a link to itself", "a: \"gpu1\" b: \"cpu1\"", "a: \"gpu1\" b: \"gpu1\"", "to itself"},
      {"a link twice", "a: \"gpu0\" b: \"gpu1\" id: \"nvlink2\"",
       "a: \"cpu1\" b: \"cpu0\" id: \"qpi_9_6\"", "second time"},
      {"a node twice", "name: \"cpu1\"", "name: \"cpu0\"", "\"cpu0\" a second time"},
      {"sockets that are not there", "sockets { value: 2", "sockets { value: 4", ":5: "},
      {"a GPU on its own", "a: \"gpu0\" b: \"plx0\"", "a: \"plx0\" b: \"cpu1\"",
       "\"gpu0\" without a way to a socket"},
      {"a kind of nothing", "PCIE_SWITCH", "SWITCH", "one of SOCKET"},
      {"a disk without an id", "id: \"sata_ssd\" ", "", "disk without an id"},
      {"a link of no source", "id: \"qpi_9_6\" source: \"us\"", "id: \"qpi_9_6\"",
       "without a source"},
      {"hosts that share a socket", "memory_gib {",
       "hosts { value: 4 source: \"us\" } memory_gib {", "as many as divide the 2 sockets"},
      {"slots of no form", "memory_gib {", "slot { value: SXM1 source: \"us\" } memory_gib {",
       "nearest"},
      {"memory of no size", "memory_gib { value: 512", "memory_gib { value: 0", "memory_gib 0"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string text = test::replace(kBox, row.from, row.to);
    const std::string error =
        test::input_error([&] { (void)load_machine_spec(text, "x.textproto"); });
    CAPTURE(error);
    CHECK(error.starts_with("x.textproto"));
    CHECK(error.find(row.message) != error.npos);
    CHECK(error.find('\n') == error.npos);
  }
  const std::string zero =
      test::replace(kBox, "id: \"nvlink2\" count: 2", "id: \"nvlink2\" count: 0");
  CHECK(test::input_error([&] { (void)load_machine_spec(zero, "x"); }).find("count 0") !=
        std::string::npos);
}

TEST_CASE("a truncated or damaged machine is read or refused, never more") {
  Random random(11);
  for (int round = 0; round < 1000; ++round) {
    std::string text = kBox.substr(0, round % 2 ? kBox.size() : random.next() % kBox.size());
    for (int flips = 0; flips < 3 && !text.empty(); ++flips) {
      text[random.next() % text.size()] ^= static_cast<char>(1u << (random.next() % 8));
    }
    const std::string error = test::input_error([&] { (void)load_machine_spec(text, "x"); });
    CHECK(error.find('\n') == error.npos);
  }
}

TEST_CASE("every machine in the binary is valid and made of hardware that has a spec") {
  const MachineCatalog machines = MachineCatalog::embedded();
  CHECK(machines.all().size() >= 30);
  test::check_catalog(machines);
  const CpuCatalog cpus = CpuCatalog::embedded();
  const GpuCatalog gpus = GpuCatalog::embedded();
  const DiskCatalog disks = DiskCatalog::embedded();
  const LinkCatalog links = LinkCatalog::embedded();
  for (const MachineSpec& machine : machines.all()) {
    CAPTURE(machine.id);
    const CpuSpec& cpu = cpus.find(machine.cpu);
    CHECK(cpu.id == machine.cpu);
    CHECK(machine.hardware_threads <= machine.sockets * cpu.threads);
    CHECK(machine.memory <= cpu.max_memory * machine.sockets);
    for (const std::string& gpu : machine.gpus) CHECK(gpus.find(gpu).id == gpu);
    for (const MachineDisk& disk : machine.disks) CHECK(disks.find(disk.disk).id == disk.disk);
    for (const MachineLink& link : machine.links) CHECK(links.find(link.link).id == link.link);
    CHECK_FALSE(machine.nodes_of(NodeKind::Gpu).empty());
  }
}

TEST_CASE("every GPU of an NVLink machine uses as many links as it has") {
  struct Row {
    const char* machine;
    std::size_t gpus;
    int links;        // of each GPU, from its white paper
    double gb_per_s;  // one way, all links of a GPU
  };
  const Row rows[] = {
      {"dgx1_p100", 8, 4, 80},       {"dgx1_v100", 8, 6, 150}, {"dgx2", 16, 6, 150},
      {"dgx_a100", 8, 12, 300},      {"dgx_h100", 8, 18, 450}, {"aws_p3_16xlarge", 8, 6, 150},
      {"ibm_s822lc", 4, 4, 80},      {"ibm_ac922", 4, 6, 150}, {"dgx_station", 4, 4, 100},
      {"aws_p3_8xlarge", 4, 4, 100}, {"dgx_b300", 8, 18, 900}, {"gh200_quad", 4, 18, 450},
      {"gh200_nvl2", 2, 18, 450},
  };
  const MachineCatalog machines = MachineCatalog::embedded();
  const LinkCatalog links = LinkCatalog::embedded();
  for (const Row& row : rows) {
    CAPTURE(row.machine);
    const MachineSpec& machine = machines.find(row.machine);
    const auto gpus = machine.nodes_of(NodeKind::Gpu);
    CHECK(gpus.size() == row.gpus);
    for (const std::uint32_t gpu : gpus) {
      CHECK(nvlinks_of(machine, gpu, links) == row.links);
      double sum = 0;
      for (const MachineLink& link : machine.links) {
        if (links.find(link.link).kind != LinkKind::Nvlink || (link.a != gpu && link.b != gpu))
          continue;
        sum += links.find(link.link).bandwidth.in_gb_per_s() * link.count;
      }
      CHECK(sum == doctest::Approx(row.gb_per_s));
    }
  }
}

TEST_CASE("DGX-1's cube mesh joins quads fully and each GPU to one of the other quad") {
  const MachineCatalog machines = MachineCatalog::embedded();
  for (const char* id : {"dgx1_p100", "dgx1_v100"}) {
    const MachineSpec& dgx = machines.find(id);
    const auto gpus = dgx.nodes_of(NodeKind::Gpu);
    for (std::size_t i = 0; i < 8; ++i) {
      int across = 0;
      for (std::size_t j = 0; j < 8; ++j) {
        if (i == j) continue;
        const bool same_quad = i / 4 == j / 4;
        const int count = dgx.links_between(gpus[i], gpus[j]);
        if (same_quad) CHECK(count >= 1);
        if (!same_quad && count > 0) ++across;
      }
      CHECK(across == 1);
      CHECK(dgx.path_to_socket(gpus[i]).size() == 2);  // over its PCIe switch
    }
  }
}

TEST_CASE("a GPU of a POWER machine reaches its host over NVLink") {
  const MachineCatalog machines = MachineCatalog::embedded();
  const MachineSpec& minsky = machines.find("s822lc");
  const auto path = minsky.path_to_socket(minsky.nodes_of(NodeKind::Gpu).at(3));
  REQUIRE(path.size() == 1);
  CHECK(path[0]->link == "nvlink1");
  CHECK(path[0]->count == 2);
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
