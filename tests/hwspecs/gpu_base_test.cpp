#include "hwspecs/loaders/gpu_base.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/default_machine.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/machine_spec.hpp"
#include "hwspecs/peer_access.hpp"
#include "sim/base/file.hpp"
#include "tests/hwspecs/spec_checks.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

TEST_SUITE_BEGIN("hwspecs/loaders/gpu_base");

namespace tracecast {
namespace {

using test::input_error;

/// A spec that states nothing but its names, its base and `facts`.
std::string variant(const std::string& id, const std::string& base, const std::string& facts = "") {
  return "id: \"" + id + "\"\nname: \"My " + id + "\"\nbase: \"" + base +
         "\"\nsources { key: \"us\" title: \"This test\" where: \"here\" }\n" + facts;
}
const std::string kBandwidth = "dram_gb_per_s { value: 6000 source: \"us\" }\n";

/// A catalog of the binary's and these files.
GpuCatalog with_files(const std::map<std::string, std::string>& files) {
  const test::TemporaryFolder folder;
  for (const auto& [name, text] : files) write_file(folder.path() / (name + ".textproto"), text);
  GpuCatalog catalog = GpuCatalog::embedded();
  catalog.add_folder(folder.path());
  return catalog;
}

const SpecValue& value_of(const GpuSpec& gpu, std::string_view field) {
  const auto at = std::find_if(gpu.values.begin(), gpu.values.end(),
                               [&](const SpecValue& v) { return v.field == field; });
  REQUIRE(at != gpu.values.end());
  return *at;
}

TEST_CASE("a spec with a base has its own values, and the base's where it states none") {
  const GpuCatalog catalog = with_files({{"mine", variant("mine", "h200", kBandwidth)}});
  const GpuSpec& mine = catalog.find("mine");
  const GpuSpec& base = catalog.find("h200");
  CHECK(mine.name == "My mine");
  CHECK(mine.aliases.empty());  // the base's other names stay the base's
  CHECK(catalog.find("h200_sxm").id == "h200");
  CHECK(mine.dram_bandwidth.in_gb_per_s() == doctest::Approx(6000));
  CHECK(mine.sm_count == base.sm_count);
  CHECK(mine.memory == base.memory);
  CHECK(mine.peaks.size() == base.peaks.size());
  CHECK(mine.chip == base.chip);  // leaves a fit together with all boards of it

  REQUIRE(bases_of(mine).size() == 1);
  CHECK(bases_of(mine).front().id == "h200");
  CHECK(bases_of(mine).front().name == base.name);
  CHECK(value_of(mine, "dram_gb_per_s").source == "us");
  CHECK(inherited_from(value_of(mine, "dram_gb_per_s")) == "");
  for (const SpecValue& value : mine.values) {
    if (value.field == "base" || value.field == "dram_gb_per_s") continue;
    CAPTURE(value.field);
    CHECK(inherited_from(value) == "h200");
    CHECK(value.source == "h200/" + value_of(base, value.field).source);
  }
  test::check_catalog(catalog);  // every value has its source, every source is of a value
}

TEST_CASE("a variant is not the GPU that a profile measured, but goes where its base goes") {
  const GpuCatalog catalog = with_files(
      {{"mine", variant("mine", "h200", kBandwidth)}, {"card", variant("card", "rtx4090")}});
  CostProfile profile = default_cost_profile();
  profile.measured_gpu = "h200";
  profile.board = {.arithmetic = 0.5, .bandwidth = 0.5};
  CHECK(board_factors(profile, catalog.find("h200")).arithmetic == 0.5);
  CHECK(board_factors(profile, catalog.find("mine")).arithmetic == 1.0);
  CHECK(binary().default_machine(catalog.find("mine"), 8).machine ==
        binary().default_machine(catalog.find("h200"), 8).machine);
  // What a product line leaves out, a variant lacks under any name.
  CHECK(peer_access(catalog.find("rtx4090")).over_pcie == false);
  CHECK(peer_access(catalog.find("card")).over_pcie == false);
}

TEST_CASE("a chain of bases is followed, and each value says whose it is") {
  const GpuCatalog catalog =
      with_files({{"a", variant("second", "first", "tdp_w { value: 650 source: \"us\" }")},
                  {"b", variant("first", "h200", kBandwidth)}});
  const GpuSpec& second = catalog.find("second");
  REQUIRE(bases_of(second).size() == 2);
  CHECK(bases_of(second)[0].id == "first");
  CHECK(bases_of(second)[1].id == "h200");
  CHECK(inherited_from(value_of(second, "tdp_w")) == "");
  CHECK(value_of(second, "dram_gb_per_s").source == "first/us");
  CHECK(inherited_from(value_of(second, "sm_count")) == "h200");
  CHECK(second.dram_bandwidth.in_gb_per_s() == doctest::Approx(6000));
}

TEST_CASE("a base is the folder's where it has one, and the binary's for what is in the binary") {
  const std::string text = read_file("hwspecs/gpu/t4.textproto", 1 << 20);
  const GpuCatalog catalog = with_files(
      {{"t4", test::replace(text, "max_blocks_per_sm { value: 16", "max_blocks_per_sm { value: 8")},
       {"mine", variant("mine", "t4")}});
  CHECK(catalog.find("t4").max_blocks_per_sm == 8);
  CHECK(catalog.find("mine").max_blocks_per_sm == 8);
  CHECK(catalog.find("t4g").max_blocks_per_sm == 16);
}

TEST_CASE("what belongs together is inherited together") {
  const std::string tdp = "tdp_w { value: 100 source: \"us\" }\n";
  const GpuCatalog catalog = with_files(
      {{"a", variant("fast", "gtx1080ti", kBandwidth)}, {"b", variant("cool", "a40", tdp)}});
  // Memory clocks are those of the base's bandwidth.
  CHECK(catalog.find("gtx1080ti").memory_clock.has_value());
  CHECK_FALSE(catalog.find("fast").memory_clock.has_value());
  CHECK(catalog.find("fast").dram_bandwidth.in_gb_per_s() == doctest::Approx(6000));
  // Limits of power are those of the base's board.
  CHECK(catalog.find("a40").max_power_limit.has_value());
  CHECK_FALSE(catalog.find("cool").max_power_limit.has_value());
}

TEST_CASE("a variant that cannot be is refused in one line") {
  struct Row {
    const char* what;
    std::map<std::string, std::string> files;
    const char* message;
  };
  std::map<std::string, std::string> too_long;
  for (int i = 0; i < 9; ++i) {
    const std::string base = i == 8 ? "h200" : "link" + std::to_string(i + 1);
    too_long["link" + std::to_string(i)] = variant("link" + std::to_string(i), base);
  }
  const std::string more_sms = "sm_count { value: 144 source: \"us\" }\n";
  const std::string all_fp32 = more_sms +
                               "peak { precision: FP32 unit: CUDA_CORE tflop_per_s: 72.99 source: "
                               "\"us\" }\n";  // 144 x 128 x 2 x 1.98
  const Row rows[] = {
      {"an unknown base", {{"a", variant("mine", "h2000")}}, "base \"h2000\""},
      {"an alias as base", {{"a", variant("mine", "h200_sxm")}}, "base \"h200_sxm\""},
      {"no base's name", {{"a", variant("mine", "")}}, "base \"\""},
      {"its own base", {{"a", variant("mine", "mine")}}, "circle: mine -> mine"},
      {"a replacement of its own base", {{"a", variant("h200", "h200")}}, "circle: h200 -> h200"},
      {"two in a circle",
       {{"a", variant("mine", "yours")}, {"b", variant("yours", "mine")}},
       "circle: mine -> yours -> mine"},
      {"a chain of nine", too_long, "at most 8 bases"},
      {"a value without a source",
       {{"a", variant("mine", "h200", "tdp_w { value: 650 }")}},
       "tdp_w without a source"},
      {"a value with a source of the base's",
       {{"a", variant("mine", "h200", "tdp_w { value: 650 source: \"board\" }")}},
       "\"board\""},
      {"a key that looks like a base's",
       {{"a", variant("mine", "h200", "sources { key: \"h200/x\" title: \"a\" where: \"b\" }")}},
       "without '/'"},
      {"more SMs at the base's peaks", {{"a", variant("mine", "h200", more_sms)}}, "peak fp"},
      {"more SMs at the base's tensor cores",
       {{"a", variant("mine", "h200", all_fp32)}},
       "peak fp"},
      {"another die under the base's chip",
       {{"a", variant("mine", "h200", "compute_capability { value: \"10.0\" source: \"us\" }")}},
       "chip of h200"},
      {"a value at odds with an inherited one",
       {{"a", variant("mine", "h200", "tdp_w { value: 20 source: \"us\" }")}},
       "idle_w"},
      {"a base that is broken",
       {{"a", variant("mine", "yours")}, {"b", variant("yours", "h200", "tdp_w { value: }")}},
       "b.textproto"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string error = input_error([&] { (void)with_files(row.files); });
    CAPTURE(error);
    CHECK(error.find(row.message) != error.npos);
    CHECK(error.find('\n') == error.npos);
  }
}

TEST_CASE("nine specs in a chain are eight bases: the longest") {
  std::map<std::string, std::string> files;
  for (int i = 0; i < 8; ++i) {
    const std::string base = i == 7 ? "h200" : "link" + std::to_string(i + 1);
    files["link" + std::to_string(i)] = variant("link" + std::to_string(i), base);
  }
  CHECK(bases_of(with_files(files).find("link0")).size() == 8);
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
