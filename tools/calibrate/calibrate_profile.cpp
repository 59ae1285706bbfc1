#include "tools/calibrate/calibrate_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "calibrate/fit/fit_profile.hpp"
#include "calibrate/fit/uncertainty.hpp"
#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/error_statistics.hpp"
#include "calibrate/table/measurement_set.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/output.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFewestRows = 20;
constexpr std::size_t kRowsPerCell = 300;
/// Kernels' own times are good down to here; what is shorter is launch and clock resolution.
constexpr Seconds kShortestRow(10e-6);
constexpr double kNarrowestPrior = 0.5;  ///< of the width before any measurement
constexpr const char* kDataSet = "local";

/// The profile's parameters as what is believed before the fit.
std::vector<ProfileParameter> priors_of(const Hardware& hardware) {
  const CostProfile& profile = hardware.cost();
  std::map<std::string, double, std::less<>> stated;
  for (const ProfileParameter& p : profile.parameters) stated[p.name] = p.log_sd;
  std::vector<ProfileParameter> result;
  for (ProfileParameter prior : hardware.specs().prior_parameters()) {
    const auto at = stated.find(prior.name);
    if (prior.log_sd > 0 && at != stated.end()) {
      prior.value = get_parameter(profile, prior.name);
      prior.log_sd = std::max(at->second, kNarrowestPrior * prior.log_sd);
    }
    // No local row runs an engine.
    if (!prior.name.starts_with("tensor_gemm.engine.")) result.push_back(std::move(prior));
  }
  return result;
}

ErrorStatistics errors_of(const MeasurementSet& sample, const CostProfile& profile) {
  std::vector<JudgedRow> judged;
  for (const Measurement& row : sample.rows) {
    const auto estimate = estimate_measurement(row, *row.spec, profile);
    if (!estimate) continue;
    const double error = estimate->time / row.time - 1;
    judged.push_back({error, std::abs(std::log1p(error)) <= 1.645 * estimate->log_sd});
  }
  return summarize(judged);
}

/// "1312 to 1530 MHz under load", of all rows of all tables; empty where the device has no sensors.
std::string clocks_text(const std::vector<fs::path>& files) {
  double low = 0, high = 0;
  for (const fs::path& file : files) {
    CsvReader reader(file);
    while (reader.next()) {
      const auto clock = parse_double(RowFields(reader).text_or_empty("sm_clock_mhz"));
      if (!clock) continue;
      low = low > 0 ? std::min(low, *clock) : *clock;
      high = std::max(high, *clock);
    }
  }
  return high > 0 ? fmt::format("; SM clock {:.0f} to {:.0f} MHz under load", low, high) : "";
}

ProfileDataSet data_set_of(const MeasuredTables& tables, std::size_t rows) {
  std::string hashes;
  for (const fs::path& file : tables.files) {
    hashes += fmt::format("{}{} {:.12}", hashes.empty() ? "" : ", ", file.filename().string(),
                          sha256(read_file(file, 1ULL << 30)));
  }
  return {.key = kDataSet,
          .title = "Measured by tracecast calibrate: " + tables.device.fingerprint(),
          .rows = fmt::format("{} rows fitted, of {}{}; tables and the first digits of their "
                              "SHA-256: {}",
                              rows, tables.gpu, clocks_text(tables.files), hashes),
          .date = tables.date};
}

/// The fit's profile with what it says of itself: id, data sets, where each parameter comes from
/// and how sure it is.
CostProfile completed(const FitResult& fit, const MeasuredTables& tables,
                      const CostProfile& start) {
  CostProfile profile = fit.profile;
  profile.id = "local_" + tables.gpu;
  profile.title = fmt::format("Calibrated on {}", tables.device.name);
  profile.measured_gpu = tables.gpu;
  if (const auto board = fit.boards.find(tables.gpu); board != fit.boards.end()) {
    profile.board = board->second;
  }
  profile.data_sets = start.data_sets;
  std::erase_if(profile.data_sets, [](const ProfileDataSet& set) { return set.key == kDataSet; });
  profile.data_sets.push_back(data_set_of(tables, fit.num_rows));
  for (const FittedParameter& fitted : fit.parameters) {
    for (ProfileParameter& p : profile.parameters) {
      if (p.name != fitted.name || fitted.main_source.empty()) continue;
      p.log_sd = fitted.log_sd;
      p.data_set = kDataSet;
    }
  }
  for (ProfileParameter& p : profile.parameters) {
    if (p.data_set == "left_out") p.data_set = kDataSet;  // expected errors, of this fit's rows
  }
  // Which generations each form was fitted on: those of before, and this one.
  for (std::size_t form = 0; form < kCostFormCount; ++form) {
    for (std::size_t a = 0; a < ByArchitecture::kCount; ++a) {
      profile.fitted[form][a] = profile.fitted[form][a] || start.fitted[form][a];
    }
  }
  return profile;
}

}  // namespace

std::optional<LocalProfile> fit_local_profile(const MeasuredTables& tables,
                                              const Hardware& hardware) {
  const MeasurementContext context = measurement_context(hardware);
  std::vector<fs::path> files;
  for (const fs::path& file : tables.files) {
    if (find_measurement_reader(CsvReader(file), context)) files.push_back(file);
  }
  if (files.empty()) return std::nullopt;
  const MeasurementSet sample = load_measurements(
      files, context, hardware.cost(),
      {.most_rows_per_cell = kRowsPerCell, .min_time = kShortestRow, .wanted = {}});
  if (sample.rows.size() < kFewestRows) return std::nullopt;
  std::vector<const Measurement*> rows;
  for (const Measurement& row : sample.rows) rows.push_back(&row);

  const std::vector<ProfileParameter> priors = priors_of(hardware);
  FitOptions how;
  how.progress = [](int iteration, double) {
    say_progress(fmt::format("fit: iteration {}", iteration));
  };
  FitResult fit = fit_profile(rows, hardware.cost(), priors, how);
  estimate_uncertainty(fit, sample, hardware.cost(), priors, how, [](std::string_view) {});
  say_progress("");

  LocalProfile result;
  result.profile = completed(fit, tables, hardware.cost());
  result.rows = fit.num_rows;
  const ErrorStatistics before = errors_of(sample, hardware.cost());
  const ErrorStatistics after = errors_of(sample, result.profile);
  result.mean_before = before.mape, result.median_before = before.median_ape;
  result.mean_after = after.mape, result.median_after = after.median_ape;
  return result;
}

}  // namespace tracecast
