#include "calibrate/fit/fit_profile.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/fit/uncertainty.hpp"
#include "calibrate/table/measurement_set.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

TEST_SUITE_BEGIN("calibrate/fit/fit_profile");

namespace tracecast {
namespace {

MeasurementContext context() {
  static const GpuCatalog gpus = GpuCatalog::embedded();
  return {.specs = std::make_shared<SpecsAtClock>(gpus),
          .framework = [](std::string_view id) { return find_framework(id); },
          .library = SpecLibrary::embedded()};
}

/// GEMMs of many shapes on three GPUs, timed as back-to-back calls. The times stand for nothing:
/// each test puts its own.
MeasurementSet gemms(const std::string& dtype = "fp32") {
  std::string rows = "source,gpu,dtype,op,pass,batch,m,n,k,layout,time_us,timing,clock_mhz,split\n";
  for (const char* gpu : {"p100_pcie_16gb", "v100_pcie_32gb", "t4"}) {
    for (int m = 128; m <= 4096; m *= 2) {
      for (int n = 96; n <= 4096; n = n * 3 / 2) {
        for (int k = 64; k <= 4096; k *= 4) {
          rows += std::string("me,") + gpu + "," + dtype + ",gemm,forward,1," + std::to_string(m) +
                  "," + std::to_string(n) + "," + std::to_string(k) + ",,1e5,loop,,\n";
        }
      }
    }
  }
  const test::TemporaryFolder folder;
  const std::vector<std::filesystem::path> files{folder.path() / "t.csv"};
  write_file(files[0], rows);
  static const MeasurementContext known = context();
  MeasurementSet set;
  // Too slow to be true: read them without asking the cost model.
  CsvReader csv(files[0]);
  const auto reader = find_measurement_reader(csv, known);
  while (csv.next()) {
    auto row = reader->read(csv);
    set.rows.push_back(std::move(std::get<Measurement>(row)));
  }
  return set;
}

/// Convolutions on tensor cores of two generations, NHWC. Times as above.
MeasurementSet convolutions() {
  std::string rows =
      "source,gpu,dtype,op,pass,n,c,h,w,k,r,s,p,q,groups,pad_h,pad_w,stride_h,stride_w,dil_h,dil_w,"
      "layout,"
      "algo,heur_algo,framework,time_us,timing,clock_mhz,split\n";
  for (const char* gpu : {"v100_pcie_32gb", "t4"}) {
    for (int c = 64; c <= 1024; c *= 2) {
      for (int size = 14; size <= 112; size *= 2) {
        rows += fmt::format(
            "me,{0},fp16_tensor_core,conv2d,forward,32,{1},{2},{2},{1},3,3,{2},{2},1,1,1,1,1,1,1,"
            "NHWC,"
            "IMPLICIT_PRECOMP_GEMM,IMPLICIT_PRECOMP_GEMM,,1e5,loop,,\n",
            gpu, c, size);
      }
    }
  }
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "t.csv";
  write_file(file, rows);
  static const MeasurementContext known = context();
  MeasurementSet set;
  CsvReader csv(file);
  const auto reader = find_measurement_reader(csv, known);
  REQUIRE(reader);
  while (csv.next()) {
    auto row = reader->read(csv);
    set.rows.push_back(std::move(std::get<Measurement>(row)));
  }
  return set;
}

/// Gives every row the time of a hidden profile, one GPU at a time off its spec, with log-normal
/// noise.
void play(MeasurementSet& set, const CostProfile& hidden, double t4_arithmetic, double noise) {
  Random random(7);
  for (Measurement& row : set.rows) {
    CostProfile profile = hidden;
    profile.measured_gpu = row.gpu;
    if (row.gpu == "t4") profile.board.arithmetic = t4_arithmetic;
    const auto estimate = estimate_measurement(row, *row.spec, profile);
    REQUIRE(estimate.has_value());
    row.time = estimate->time * std::exp(noise * random.normal());
  }
}

std::vector<const Measurement*> pointers(const MeasurementSet& set) {
  std::vector<const Measurement*> rows;
  for (const Measurement& row : set.rows) rows.push_back(&row);
  return rows;
}

const std::vector<ProfileParameter> kPrior = {{"gemm.tile_overhead", 0.15, 0.7, "prior"},
                                              {"gemm.prologue_steps", 8, 0.7, "prior"},
                                              {"memory.efficiency", 0.8, 0.05, "prior"}};

}  // namespace

TEST_CASE(
    "a fit finds the parameters that made the rows, within three of its standard deviations") {
  CostProfile hidden = default_cost_profile();
  hidden = with_parameter(std::move(hidden), "gemm.tile_overhead", 0.3);
  hidden = with_parameter(std::move(hidden), "gemm.prologue_steps", 20);
  MeasurementSet set = gemms();
  play(set, hidden, 1.0, 0.03);
  const auto rows = pointers(set);
  const FitResult fit = fit_profile(rows, default_cost_profile(), kPrior, {});
  for (const FittedParameter& p : fit.parameters) {
    CAPTURE(p.name);
    const double hidden_value = get_parameter(hidden, p.name);
    CHECK(std::abs(std::log(p.value / hidden_value)) < 3 * p.log_sd);
    CHECK(p.log_sd < p.prior_log_sd);
  }
  CHECK(get_parameter(fit.profile, "gemm.tile_overhead") == doctest::Approx(0.3).epsilon(0.15));
}

TEST_CASE("one GPU that is slower than its spec does not move what GPUs share") {
  MeasurementSet set = gemms();
  const CostProfile& truth = default_cost_profile();
  play(set, truth, 0.85, 0.02);
  const FitResult fit = fit_profile(pointers(set), truth, kPrior, {});
  CHECK(fit.boards.at("t4").arithmetic < 0.9);
  CHECK(fit.boards.at("t4").arithmetic / fit.boards.at("v100_pcie_32gb").arithmetic ==
        doctest::Approx(0.85).epsilon(0.05));
  CHECK(fit.profile.measured_gpu.empty());
}

TEST_CASE("wrong rows hardly pull: a tenth of them ten times too slow") {
  MeasurementSet set = gemms();
  CostProfile hidden = default_cost_profile();
  hidden = with_parameter(std::move(hidden), "gemm.tile_overhead", 0.3);
  play(set, hidden, 1.0, 0.02);
  for (std::size_t i = 0; i < set.rows.size(); i += 10) set.rows[i].time = set.rows[i].time * 10.0;
  const FitResult fit = fit_profile(pointers(set), default_cost_profile(), kPrior, {});
  CHECK(get_parameter(fit.profile, "gemm.tile_overhead") == doctest::Approx(0.3).epsilon(0.25));
}

TEST_CASE("the same rows give the same parameters with any number of threads") {
  MeasurementSet set = gemms();
  play(set, default_cost_profile(), 0.9, 0.05);
  FitOptions one, three;
  one.num_threads = 1, three.num_threads = 3;
  const FitResult a = fit_profile(pointers(set), default_cost_profile(), kPrior, one);
  const FitResult b = fit_profile(pointers(set), default_cost_profile(), kPrior, three);
  CHECK(format_cost_profile(a.profile) == format_cost_profile(b.profile));
}

TEST_CASE("a parameter without rows keeps its prior and says so") {
  MeasurementSet set = gemms();
  play(set, default_cost_profile(), 1.0, 0.02);
  const std::vector<ProfileParameter> prior = {{"memory.window_instructions", 30, 0.4, "prior"}};
  const FitResult fit = fit_profile(pointers(set), default_cost_profile(), prior, {});
  REQUIRE(fit.parameters.size() == 1);
  CHECK(fit.parameters[0].value == doctest::Approx(30));
  CHECK(fit.parameters[0].log_sd == doctest::Approx(0.4));
  CHECK(fit.parameters[0].main_source.empty());
}

TEST_CASE("a generation without rows gets what the others have in common") {
  MeasurementSet set = convolutions();
  CostProfile hidden = default_cost_profile();
  for (const char* name : {"tensor.convolution.volta", "tensor.convolution.turing"})
    hidden = with_parameter(std::move(hidden), name, 0.5);
  play(set, hidden, 1.0, 0.02);
  std::vector<ProfileParameter> prior;
  for (const char* a : {"volta", "turing", "ampere"})
    prior.push_back({std::string("tensor.convolution.") + a, 0.85, 0.12, "prior"});
  const FitResult fit = fit_profile(pointers(set), default_cost_profile(), prior, {});
  CHECK(get_parameter(fit.profile, "tensor.convolution.volta") < 0.65);
  CHECK(get_parameter(fit.profile, "tensor.convolution.ampere") < 0.72);
  // Nothing of Ampere was measured: it is less certain than Volta.
  double volta = 0, ampere = 0;
  for (const FittedParameter& p : fit.parameters) {
    if (p.name.ends_with("volta")) volta = p.log_sd;
    if (p.name.ends_with("ampere")) ampere = p.log_sd;
  }
  CHECK(ampere > volta);
}

TEST_CASE("expected errors grow from measured over transferred to spec") {
  MeasurementSet set = gemms();
  play(set, default_cost_profile(), 0.8, 0.05);
  FitResult fit = fit_profile(pointers(set), default_cost_profile(), kPrior, {});
  estimate_uncertainty(fit, set, default_cost_profile(), kPrior, {}, [](std::string_view) {});
  const double measured = get_parameter(fit.profile, "error.gemm.measured");
  const double spec = get_parameter(fit.profile, "error.gemm.spec");
  CHECK(measured > 0.02);
  CHECK(measured < 0.12);
  CHECK(spec >= measured);
}

}  // namespace tracecast

TEST_SUITE_END();
