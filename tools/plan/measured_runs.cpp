#include "tools/plan/measured_runs.hpp"

#include <fmt/format.h>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

constexpr double kMostMeasured = 1e12;  // of what is timed: far above any GPU's

double above_zero(const std::string& text, const std::string& place, const char* column) {
  const auto value = parse_double(text);
  if (!value || *value <= 0 || *value > kMostMeasured)
    throw InputError(place, fmt::format("{} \"{}\"", column, text),
                     fmt::format("a number above zero, at most {:g}", kMostMeasured));
  return *value;
}

std::int64_t count(const std::string& text, const std::string& place, const char* column) {
  const auto value = parse_integer(text);
  if (!value || *value < 1 || *value > 1'000'000)
    throw InputError(place, fmt::format("{} \"{}\"", column, text), "a whole number from 1");
  return *value;
}

}  // namespace

std::vector<MeasuredRun> read_measured_runs(const std::filesystem::path& file,
                                            const GpuCatalog& gpus) {
  CsvReader reader(file);
  std::vector<MeasuredRun> runs;
  const auto cell = [&](const char* column) {
    const auto found = reader.find_column(column);
    return found ? std::string(reader.field(*found)) : std::string();
  };
  for (const char* column : {"network", "gpu", "samples_per_s"}) {
    if (!reader.find_column(column))
      throw InputError(file.string(), fmt::format("no column {}", column),
                       "network,gpu,samples_per_s and others");
  }
  while (reader.next()) {
    const std::string place = reader.where();
    MeasuredRun run;
    run.network = cell("network");
    run.phase = cell("phase");
    run.precision = cell("precision");
    run.framework = cell("framework");
    if (const std::string text = cell("batch"); !text.empty())
      run.batch = count(text, place, "batch");
    try {
      run.rate.gpu = gpus.find(cell("gpu")).id;
    } catch (const InputError& error) {
      throw InputError(place, error);
    }
    if (const std::string text = cell("gpus"); !text.empty())
      run.rate.gpus = static_cast<int>(count(text, place, "gpus"));
    run.rate.samples_per_s = above_zero(cell("samples_per_s"), place, "samples_per_s");
    if (const std::string text = cell("log_sd"); !text.empty())
      run.rate.log_sd = above_zero(text, place, "log_sd");
    runs.push_back(std::move(run));
  }
  if (runs.empty()) throw InputError(file.string(), "no row", "runs that were measured");
  return runs;
}

bool is_of(const MeasuredRun& run, const Job& job) {
  const auto agrees = [](const std::string& stated, const std::string& actual,
                         std::string_view usual) {
    return stated.empty() || stated == (actual.empty() ? std::string(usual) : actual);
  };
  return run.network == job.network && (!run.batch || *run.batch == job.batch) &&
         agrees(run.phase, job.phase, "train") && agrees(run.precision, job.precision, "fp32") &&
         agrees(run.framework, job.software.framework, "pytorch");
}

std::size_t add_runs(const std::vector<MeasuredRun>& runs, std::vector<plan::PlanJob>& jobs) {
  std::size_t found = 0;
  for (plan::PlanJob& job : jobs) {
    const std::size_t before = job.measured.size();
    for (const MeasuredRun& run : runs)
      if (is_of(run, job.job)) job.measured.push_back(run.rate);
    found += job.measured.size() > before ? 1 : 0;
  }
  return found;
}

}  // namespace tracecast
