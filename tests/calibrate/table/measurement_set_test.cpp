#include "calibrate/table/measurement_set.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/table/measurement.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

TEST_SUITE_BEGIN("calibrate/table/measurement_set");

namespace tracecast {
namespace {

constexpr const char* kHeader =
    "source,gpu,dtype,op,pass,batch,m,n,k,layout,time_us,timing,clock_mhz,split\n";

MeasurementContext context() {
  static const GpuCatalog gpus = GpuCatalog::embedded();
  return {.specs = std::make_shared<SpecsAtClock>(gpus),
          .framework = [](std::string_view id) { return find_framework(id); },
          .library = SpecLibrary::embedded()};
}

MeasurementSet load(const std::string& rows, const MeasurementFilter& filter = {},
                    const std::string& header = kHeader) {
  const test::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files{folder.path() / "t.csv"};
  write_file(files[0], header + rows);
  static const MeasurementContext known = context();
  return load_measurements(files, known, default_cost_profile(), filter);
}

/// 2 * 1024^3 FLOP, 12.6 MB on a V100 of 14 TFLOP/s and 900 GB/s: 153 us at peak. 190 us are
/// possible.
const std::string kGood = "me,v100_pcie_32gb,fp32,gemm,forward,1,1024,1024,1024,,190,loop,,\n";

}  // namespace

TEST_CASE("a row that can be true is a measurement") {
  const MeasurementSet set = load(kGood);
  REQUIRE(set.rows.size() == 1);
  CHECK(set.rows[0].gpu == "v100_pcie_32gb");
  CHECK(set.rows[0].group == "gemm");
  CHECK(set.rows[0].source == "me");
  CHECK(set.rows[0].time.in_us() == doctest::Approx(190));
  CHECK(set.tables[0].num_usable == 1);
  CHECK(set.tables[0].refused.empty());
}

TEST_CASE(
    "linear layers run cublasLt's tiles, unless the row's note names another family of kernels") {
  const std::string layer =
      "me,p100_pcie_16gb,fp32,linear_bias,forward,1,4096,4096,1024,row,5000,ev5,,";
  const MeasurementSet set =
      load(layer + "a,\n" + layer + "b,different cuBLAS kernel family than other rows\n", {},
           "source,gpu,dtype,op,pass,batch,m,n,k,layout,time_us,timing,clock_mhz,split,note\n");
  REQUIRE(set.rows.size() == 2);
  const auto time = [&](std::size_t i) {
    const auto estimate =
        estimate_measurement(set.rows[i], *set.rows[i].spec, default_cost_profile());
    REQUIRE(estimate);
    return estimate->kernels.in_us();
  };
  // 128x128 tiles load half of what 64x64 tiles do.
  CHECK(time(0) > 1.05 * time(1));
}

TEST_CASE("rows that cannot be true are named with their line and reason, and not fitted") {
  struct Row {
    const char* what;
    std::string row;
    const char* message;
  };
  const std::string head = "me,v100_pcie_32gb,fp32,gemm,forward,1,1024,1024,1024,,";
  const Row rows[] = {
      {"not a number", head + "nan,loop,,\n", "nan"},
      {"infinite", head + "inf,loop,,\n", "inf"},
      {"negative", head + "-190,loop,,\n", "-190"},
      {"zero", head + "0,loop,,\n", "0"},
      {"no number", head + "fast,loop,,\n", "fast"},
      {"empty", head + ",loop,,\n", "above 0"},
      {"milliseconds as microseconds: above the peak", head + "0.19,loop,,\n",
       "above the card's peak"},
      {"nanoseconds as microseconds: far too slow", head + "190000,loop,,\n", "another unit?"},
      {"above the peak by a fifth", head + "120,loop,,\n", "above the card's peak"},
      {"268 MB of weights in 200 us: above the bandwidth",
       "me,v100_pcie_32gb,fp32,gemm,forward,1,1,8192,8192,,200,loop,,\n",
       "above the card's memory bandwidth"},
      {"shape of zero", "me,v100_pcie_32gb,fp32,gemm,forward,1,0,1024,1024,,190,loop,,\n", "m"},
      {"the same row again", kGood, "a second time"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const MeasurementSet set = load(kGood + row.row);
    CHECK(set.rows.size() == 1);
    REQUIRE(set.tables[0].refused.size() == 1);
    CHECK(set.tables[0].refused[0].line == 3);
    CAPTURE(set.tables[0].refused[0].reason);
    CHECK(set.tables[0].refused[0].reason.find(row.message) != std::string::npos);
    CHECK(set.tables[0].num_rows == 2);
  }
}

TEST_CASE(
    "what L2 holds from one call to the next may be read faster than the memory's bandwidth") {
  // 4.2 MB at 1.4 TB/s, where 6 MB of L2 hold them.
  const MeasurementSet set = load("me,v100_pcie_32gb,fp32,gemm,forward,1,1,1024,1024,,3,loop,,\n");
  CHECK(set.tables[0].refused.empty());
  CHECK(set.tables[0].num_usable == 1);
}

TEST_CASE("rows of unknown GPUs and number formats are counted by reason") {
  const MeasurementSet set = load(kGood +
                                  "me,voodoo2,fp32,gemm,forward,1,8,8,8,,190,loop,,\n"
                                  "me,voodoo2,fp32,gemm,forward,1,9,9,9,,190,loop,,\n"
                                  "me,t4,fp7,gemm,forward,1,8,8,8,,190,loop,,\n");
  CHECK(set.tables[0].num_unpredicted == 3);
  REQUIRE(set.tables[0].unpredicted.size() == 2);
  CHECK(set.tables[0].unpredicted[0].first.find("voodoo2") != std::string::npos);
  CHECK(set.tables[0].unpredicted[0].second == 2);
}

TEST_CASE("a table with nothing usable is an error that tells the first reason") {
  try {
    (void)load("me,v100_pcie_32gb,fp32,gemm,forward,1,1024,1024,1024,,0.19,loop,,\n");
    FAIL("accepted");
  } catch (const InputError& error) {
    const std::string what = error.what();
    CHECK(what.find("1 refused") != std::string::npos);
    CHECK(what.find("t.csv:2") != std::string::npos);
    CHECK(what.find("peak") != std::string::npos);
  }
}

TEST_CASE("a table of another kind is refused by its header") {
  const test::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files{folder.path() / "t.csv"};
  write_file(files[0], "a,b\n1,2\n");
  CHECK_THROWS_AS((void)load_measurements(files, context(), default_cost_profile(), {}),
                  InputError);
}

TEST_CASE("of a long cell, rows are kept evenly over the table, at most twice as many as asked") {
  std::string rows;
  for (int i = 0; i < 1000; ++i) {
    rows += "me,v100_pcie_32gb,fp32,gemm,forward,1,1024,1024," + std::to_string(1024 + i) +
            ",,400,loop,,\n";
  }
  const MeasurementSet set = load(
      rows, {.most_rows_per_cell = 10, .most_steps_per_cell = 10, .min_time = {}, .wanted = {}});
  CHECK(set.tables[0].num_usable == 1000);
  CHECK(set.rows.size() >= 10);
  CHECK(set.rows.size() <= 20);
  const std::size_t step = set.rows[1].line - set.rows[0].line;
  for (std::size_t i = 1; i < set.rows.size(); ++i)
    CHECK(set.rows[i].line - set.rows[i - 1].line == step);
}

TEST_CASE("short rows and unwanted ones are usable but not kept") {
  CHECK(load(kGood, {.most_rows_per_cell = 0,
                     .most_steps_per_cell = 0,
                     .min_time = Seconds(1e-3),
                     .wanted = {}})
            .rows.empty());
  const auto none = [](const Measurement&) { return false; };
  CHECK(load(kGood,
             {.most_rows_per_cell = 0, .most_steps_per_cell = 0, .min_time = {}, .wanted = none})
            .rows.empty());
}

}  // namespace tracecast

TEST_SUITE_END();
