#include "hwspecs/collective_efficiency.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

std::string refusal(std::string_view text) {
  try {
    (void)parse_collective_efficiency(text, "efficiency");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

constexpr std::string_view kNvls =
    "nvls { round_hops: 1 gpus_exponent: 1 fill_rounds: 1 link_fraction: 1 }\n"
    "isolated { wait_us: 0 factor: 1 log_sd_below_1_mib: 0.2 log_sd: 0.2 }\n";

TEST_SUITE_BEGIN("hwspecs/collective_efficiency");

TEST_CASE("what the fit writes is read back, every value of it") {
  using enum CollectiveProtocol;
  CollectiveEfficiency own;
  own.data_set = "made up";
  own.generations = {{EfficiencyLink::Nvlink, 80, 1.1, 2.2, 1},
                     {EfficiencyLink::Pcie, 100, 3.3, 4.4, 2}};
  own.rings = {{EfficiencyLink::Pcie, LowLatency128, 1.1, 2.2, 3, 4.4, 0.55, 0.66, 0.77, 0.88}};
  own.nvls = {1.1, 0.22, 3.3, 0.44};
  own.messages = {{EfficiencyLink::Nvlink, 1.1, 2.2, 3.3, Bytes(1024 * 44), 0.55, 0.66, 0.77}};
  own.kernels = {
      {"engine", KernelAlgorithm::Multicast, Seconds(1.5e-6), 2.2, 3.3, Bytes(1024 * 44), 0.55}};
  own.uncertainties = {{EfficiencyLink::Pcie, Bytes(2048), 0.11, true},
                       {EfficiencyLink::Nvlink, Bytes(0), 0.22}};
  own.isolated = {Seconds(2.5e-6), 1.1, 0.22, 0.33};
  const std::string written = collective_efficiency_text(own, "");
  CHECK(collective_efficiency_text(parse_collective_efficiency(written, "text"), "") == written);
  for (const char* value : {"1.1", "2.2", "3.3", "4.4", "0.55", "0.66", "0.77", "0.88", "multicast",
                            "of_kernels: true", "wait_us: 2.5", "dies: 2"}) {
    CAPTURE(value);
    CHECK(written.find(value) != written.npos);
  }
  const CollectiveEfficiency& efficiency = binary().collective_efficiency();
  const std::string text = collective_efficiency_text(efficiency, "# a comment\n");
  CHECK(collective_efficiency_text(parse_collective_efficiency(text, "text"), "# a comment\n") ==
        text);
  CHECK(text.find("# a comment\n") == 0);
}

TEST_CASE("the shipped pace names its data and says how far it may be off") {
  const CollectiveEfficiency& efficiency = binary().collective_efficiency();
  CHECK(!efficiency.data_set.empty());
  for (const EfficiencyLink link : {EfficiencyLink::Nvlink, EfficiencyLink::Pcie}) {
    for (const double bytes : {1e3, 1e8}) {
      CHECK(efficiency.log_sd(link, Bytes(bytes)) > 0.02);
      CHECK(efficiency.log_sd(link, Bytes(bytes)) < 0.5);
    }
    CHECK(efficiency.find_generation(link, 130) != nullptr);
    CHECK(efficiency.find_generation(link, 60) == nullptr);
  }
}

TEST_CASE("malformed files are refused") {
  CHECK(refusal(kNvls) == "");
  CHECK(refusal(std::string(kNvls) + "way { link: NVLINK protocol: \"slow\" slices: 1 }")
            .find("ll128") != std::string::npos);
  CHECK(refusal(std::string(kNvls) +
                "generation { from_capability: 80 hop_kilocycles: 1 start_kilocycles: 1 }")
            .find("NVLINK or PCIE") != std::string::npos);
  CHECK(refusal(std::string(kNvls) + "generation { link: NVLINK from_capability: 80 "
                                     "hop_kilocycles: -1 start_kilocycles: 1 }") != "");
  CHECK(refusal(std::string(kNvls) + "uncertainty { link: NVLINK from_kib: 0 log_sd: nan }") != "");
  CHECK(refusal("nvls {") != "");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
