#include "tools/plan/schedule_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kRate = "steps_per_s";
constexpr std::int64_t kMostGpus = 100'000;
/// A step of 3,000 years; steps shorter than the clock's microsecond a thousand times.
constexpr double kLeastRate = 1e-11, kMostRate = 1e9;

double rate_at(const CsvReader& reader, std::size_t column) {
  const std::string_view field = reader.field(column);
  const auto value = parse_double(field);
  if (!value || (*value != 0 && !(*value >= kLeastRate && *value <= kMostRate))) {
    throw InputError(reader.where() + ", " + reader.header()[column],
                     "\"" + std::string(field) + "\"",
                     fmt::format("steps per second, {:g} to {:g}, or 0 where it cannot run",
                                 kLeastRate, kMostRate));
  }
  return *value;
}

constexpr std::string_view kGlobalBatch = "global_batch";

RateTables::Program program_of(const RowFields& row, std::string_view model, std::string_view batch,
                               std::string_view gpus) {
  RateTables::Program program;
  program.model = row.text(model);
  (batch == kGlobalBatch ? program.global_batch : program.batch) = row.integer(batch, 0);
  if (!gpus.empty()) program.gpus = static_cast<int>(row.integer(gpus, 1, kMostGpus));
  return program;
}

}  // namespace

bool RateTables::means(std::string_view word, std::string_view type) {
  const std::string lower = to_lower(type);
  return word.empty() || lower == word || (lower.starts_with(word) && lower[word.size()] == '_');
}

void RateTables::add(const std::filesystem::path& file) {
  CsvReader reader(file);
  const RowFields row(reader);
  const auto has = [&](std::string_view name) { return reader.find_column(name).has_value(); };
  if (has("job_a") && has("steps_per_s_a")) {
    while (reader.next()) {
      pairs_.push_back({program_of(row, "job_a", "batch_a", ""),
                        program_of(row, "job_b", "batch_b", ""), to_lower(row.text("gpu")),
                        rate_at(reader, row.column("steps_per_s_a")),
                        rate_at(reader, row.column("steps_per_s_b"))});
    }
    return;
  }
  const std::string_view batch = has("batch") ? "batch" : kGlobalBatch;
  if (has("gpu") && (has("job") || has("model")) && has(batch) && has(kRate)) {
    const std::string_view job = has("job") ? "job" : "model";
    while (reader.next()) {
      const std::string_view placement = row.text_or_empty("placement");
      const bool is_scattered = placement == "unconsolidated";
      if (!placement.empty() && placement != "single" && placement != "consolidated" &&
          !is_scattered)
        continue;
      (is_scattered ? uncertainty_ : rates_)[program_of(row, job, batch, "gpus")].emplace(
          to_lower(row.text("gpu")), rate_at(reader, row.column(kRate)));
    }
    return;
  }
  std::vector<std::pair<std::size_t, std::string>> columns;
  for (std::size_t c = 0; c < reader.header().size(); ++c) {
    const std::string& name = reader.header()[c];
    if (name == kRate) columns.emplace_back(c, "");
    if (name.ends_with("_steps_per_s"))
      columns.emplace_back(c, to_lower(name.substr(0, name.size() - kRate.size() - 1)));
  }
  if (columns.empty() || !has("model") || !has(batch) || !has("gpus")) {
    throw InputError(reader.file_name() + ":1", "not a table of throughputs",
                     "columns model, batch, gpus and steps_per_s or TYPE_steps_per_s");
  }
  while (reader.next()) {
    auto& rates = rates_[program_of(row, "model", batch, "gpus")];
    for (const auto& [column, word] : columns) rates.emplace(word, rate_at(reader, column));
  }
}

std::optional<double> RateTables::find(const Program& program, std::string_view type) const {
  return find_in(rates_, program, type);
}

std::optional<double> RateTables::find_uncertainty(const Program& program,
                                                   std::string_view type) const {
  return find_in(uncertainty_, program, type);
}

std::optional<double> RateTables::find_in(const Rates& rates, const Program& program,
                                          std::string_view type) {
  const auto known = rates.find(program);
  if (known == rates.end()) return std::nullopt;
  // The longest word that means the type: "v100_32gb" before "v100" before any.
  std::optional<double> found;
  std::size_t longest = 0;
  for (const auto& [word, rate] : known->second) {
    if (!means(word, type) || (found && word.size() < longest)) continue;
    found = rate;
    longest = word.size();
  }
  return found;
}

std::vector<int> RateTables::sizes_of(Program program) const {
  std::vector<int> sizes;
  const std::int64_t global_batch = program.global_batch;
  program.gpus = 1;
  program.global_batch = 0;
  for (auto known = rates_.lower_bound(program); known != rates_.end(); ++known) {
    const Program& other = known->first;
    if (other.model != program.model || other.batch != program.batch) break;
    if (other.global_batch == global_batch) sizes.push_back(other.gpus);
  }
  return sizes;
}

bool RateTables::knows_type(std::string_view type) const {
  return std::any_of(rates_.begin(), rates_.end(), [&](const auto& program) {
    return std::any_of(program.second.begin(), program.second.end(),
                       [&](const auto& rate) { return means(rate.first, type); });
  });
}

std::vector<RateTables::Program> RateTables::programs() const {
  std::vector<Program> all;
  for (const auto& [program, rates] : rates_) all.push_back(program);
  return all;
}

}  // namespace tracecast
