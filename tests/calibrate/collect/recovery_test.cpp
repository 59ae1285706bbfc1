// The whole pipeline on a rehearsal: a hidden truth drawn from what is believed before any
// measurement, measured with noise, throttling and outliers, fitted, and compared with what the fit
// says of itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/collect/collector.hpp"
#include "calibrate/collect/tables.hpp"
#include "calibrate/device/experiment_kernels.hpp"
#include "calibrate/device/fake_device.hpp"
#include "calibrate/fit/fit_profile.hpp"
#include "calibrate/table/measurement_set.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/support/specs.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::calibrate {
namespace {

/// Every parameter that a fit may move, and the board's two factors, drawn from their priors.
CostProfile draw_truth(const GpuSpec& gpu, const FitOptions& options, std::uint64_t seed) {
  Random random(seed);
  CostProfile truth = default_cost_profile();
  for (const ProfileParameter& prior : prior_parameters()) {
    const auto [low, high] = parameter_bounds(prior.name);
    const double value = prior.value * std::exp(prior.log_sd * random.normal());
    if (prior.log_sd > 0)
      truth = with_parameter(std::move(truth), prior.name, std::clamp(value, low, high));
  }
  truth.measured_gpu = gpu.id;
  truth.board.arithmetic = std::exp(options.arithmetic_log_sd * random.normal());
  truth.board.bandwidth = std::exp(options.bandwidth_log_sd * random.normal());
  return truth;
}

/// Measures the quick plan on a device of that truth and fits what came out.
struct Recovery {
  FitResult fit;
  std::size_t rejected = 0, repeated = 0;
};
Recovery recover(const GpuSpec& gpu, const CostProfile& truth, const GpuCatalog& catalog,
                 std::uint64_t seed) {
  FakeDevice device({.gpu = gpu, .profile = truth},
                    {.noise_log_sd = 0.01, .outlier_share = 0.02, .throttle_share = 0.1}, seed);
  const Plan plan = make_plan(device, PlanSize::Quick);
  const test::TemporaryFolder folder;
  Journal journal(folder.path() / "journal", {});
  static_cast<void>(collect(device, plan, gpu, default_cost_profile(), journal, {}));
  const CollectCounts counts = count(plan, journal);

  MeasurementContext context{.specs = std::make_shared<SpecsAtClock>(catalog),
                             .framework = [](std::string_view id) { return find_framework(id); },
                             .library = SpecLibrary::embedded()};
  std::vector<std::filesystem::path> files;
  for (const CollectedTable& table : collected_tables(plan, journal, gpu.id, device.identity())) {
    files.push_back(folder.path() / table.name);
    write_file(files.back(), table.content);
    if (!find_measurement_reader(CsvReader(files.back()), context)) files.pop_back();
  }
  const MeasurementSet set =
      load_measurements(files, context, default_cost_profile(),
                        {.most_rows_per_cell = 0, .min_time = Seconds(5e-6), .wanted = {}});
  std::vector<const tracecast::Measurement*> rows;
  for (const tracecast::Measurement& row : set.rows) rows.push_back(&row);
  return {.fit = fit_profile(rows, default_cost_profile(), prior_parameters(), {}),
          .rejected = counts.rejected,
          .repeated = counts.repeated};
}

TEST_SUITE_BEGIN("calibrate/collect/recovery");

TEST_CASE("a fit recovers hidden parameters within the uncertainty that it states") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("v100_sxm2_16gb");
  std::size_t judged = 0, within_one = 0, within_three = 0, informed = 0, repeated = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const CostProfile truth = draw_truth(gpu, {}, seed);
    const Recovery recovery = recover(gpu, truth, catalog, seed);
    repeated += recovery.repeated;
    for (const FittedParameter& p : recovery.fit.parameters) {
      // What rows of this GPU say nothing about stays as believed: nothing to judge.
      if (p.log_sd > 0.8 * p.prior_log_sd) continue;
      ++judged;
      if (p.log_sd < 0.5 * p.prior_log_sd) ++informed;
      const double z = std::abs(std::log(p.value / get_parameter(truth, p.name))) / p.log_sd;
      CAPTURE(p.name);
      CAPTURE(z);
      CHECK(z < 4);
      if (z < 1) ++within_one;
      if (z < 3) ++within_three;
    }
  }
  CHECK(repeated > 0);  // throttled samples came, and were made again
  CHECK(judged >= 20);
  CHECK(informed >= 5);
  // Of a normal 68 and 99.7 %; a stated uncertainty that is too wide only raises these.
  CHECK(static_cast<double>(within_one) >= 0.6 * static_cast<double>(judged));
  CHECK(static_cast<double>(within_three) >= 0.97 * static_cast<double>(judged));
}

TEST_CASE("what was measured is predicted by the fit within a few percent") {
  const GpuCatalog catalog = GpuCatalog::embedded();
  const GpuSpec& gpu = catalog.find("v100_sxm2_16gb");
  const CostProfile truth = draw_truth(gpu, {}, 4);
  const Recovery recovery = recover(gpu, truth, catalog, 4);
  CostProfile fitted = recovery.fit.profile;
  fitted.measured_gpu = gpu.id;
  fitted.board = recovery.fit.boards.at(gpu.id);

  FakeDevice device({.gpu = gpu, .profile = truth}, {}, 4);
  std::vector<double> before, after;
  for (const PlannedExperiment& planned : make_plan(device, PlanSize::Quick).experiments) {
    const Experiment& experiment = planned.experiment;
    const auto time = expected_time(experiment, gpu, truth);
    if (!time || *time < Seconds(20e-6)) continue;
    after.push_back(std::abs(std::log(*expected_time(experiment, gpu, fitted) / *time)));
    before.push_back(
        std::abs(std::log(*expected_time(experiment, gpu, default_cost_profile()) / *time)));
  }
  REQUIRE(after.size() > 30);
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  const double median_before = median(before), median_after = median(after);
  CHECK(median_after < 0.03);
  CHECK(median_after < 0.3 * median_before);
}

}  // namespace
}  // namespace tracecast::calibrate
