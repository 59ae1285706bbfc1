#include "hwspecs/slots.hpp"

#include <doctest/doctest.h>

#include "tests/hwspecs/spec_checks.hpp"
#include "tests/support/specs.hpp"

TEST_SUITE_BEGIN("hwspecs/slots");

namespace tracecast {
namespace {

struct Catalogs {
  GpuCatalog gpus = GpuCatalog::embedded();
  MachineCatalog machines = MachineCatalog::embedded();

  [[nodiscard]] TakenBoard take(const char* word, const char* machine) const {
    return take_board(word, machines.find(machine), gpus, "--gpu");
  }
};

TEST_CASE("a short form means the board that the machine comes with, an id itself") {
  const Catalogs all;
  struct Row {
    const char* word;
    const char* machine;
    const char* gpu;
    bool noted;
  };
  const Row rows[] = {
      {"a100", "dgx_a100", "a100_sxm4_40gb", true},
      {"A100-80GB", "dgx_a100", "a100_sxm4_80gb", true},
      {"a100_sxm4_80gb", "dgx_a100", "a100_sxm4_80gb", false},
      {"NVIDIA A100-SXM4-80GB", "dgx_a100", "a100_sxm4_80gb", false},
      {"v100", "dgx2", "v100_sxm3_32gb", true},
      {"v100", "s_fj_v100", "v100_pcie_16gb", true},
      {"p100", "dgx1_p100", "p100_sxm2_16gb", true},
      {"p100", "s_ibm_pod", "p100_pcie_16gb", true},
      {"h20", "dgx_h100", "h20_96gb", true},  // not H200, which comes before
      {"gh200", "gh200_nvl2", "gh200_144gb", true},
      {"t4", "pcie_host_2022", "t4", false},
      {"v100_sxm2_32gb", "big_basin", "v100_sxm2_32gb", false},  // not what it comes with; it fits
      {"rtx3090", "dgx_station", "rtx3090", false},
      {"v100_sxm2_16gb", "gavel_cloud", "v100_sxm2_16gb", false},  // slots of no form
  };
  for (const Row& row : rows) {
    CAPTURE(row.word);
    CAPTURE(row.machine);
    const TakenBoard taken = all.take(row.word, row.machine);
    CHECK(taken.gpu->id == row.gpu);
    CHECK(taken.note.empty() != row.noted);
  }
}

TEST_CASE("a board that does not fit the slots is refused with those that do") {
  const Catalogs all;
  struct Row {
    const char* word;
    const char* machine;
    const char* message;
  };
  const Row rows[] = {
      {"a100_pcie_40gb", "dgx_a100",
       "a100_pcie_40gb, a PCIe card, in dgx_a100; expected a board of "
       "its SXM4 slots, such as a100_sxm4_40gb, a100_sxm4_80gb"},
      {"t4", "dgx1_v100", "its SXM2 slots, such as v100_sxm2_16gb, v100_sxm2_32gb"},
      {"h100", "dgx_a100", "h100_sxm5_80gb, an SXM5 module"},
      {"v100", "pcie_host_2022",
       "v100_sxm2_16gb, an SXM2 module, in pcie_host_2022; expected a board "
       "of its PCIE slots"},
      {"gb300", "gb200_nvl72", "gb300, part of a superchip"},
      {"b200", "gb200_nvl72", "SUPERCHIP slots, such as gb200"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.word);
    const std::string error = test::input_error([&] { (void)all.take(row.word, row.machine); });
    CAPTURE(error);
    CHECK(error.starts_with("--gpu: found "));
    CHECK(error.find(row.message) != error.npos);
    CHECK(error.find('\n') == error.npos);
  }
  CHECK(test::input_error([&] { (void)all.take("a1000", "dgx_a100"); }).find("a1000") !=
        std::string::npos);
}

TEST_CASE(
    "every GPU fits the machine that is assumed for it, every machine has what it comes with") {
  const Catalogs all;
  for (const GpuSpec& gpu : all.gpus.all()) {
    for (const int count : {1, 2, 8, 100}) {
      CAPTURE(gpu.id);
      CAPTURE(count);
      const MachineSpec& machine = all.machines.find(binary().default_machine(gpu, count).machine);
      CHECK_NOTHROW(check_fits(gpu, machine, all.gpus, "gpu"));
    }
  }
  for (const MachineSpec& machine : all.machines.all()) {
    CAPTURE(machine.id);
    if (!machine.slot) continue;
    for (const std::string& id : machine.gpus) {
      CHECK(all.gpus.find(id).form_factor == *machine.slot);
    }
  }
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
