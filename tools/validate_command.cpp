#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "tools/output.hpp"
#include "tools/sha256.hpp"
#include "tools/subcommand.hpp"
#include "tools/validation.hpp"

namespace tracecast {
namespace {

struct ValidateOptions {
  std::string file;
  std::vector<std::string> only;
  double min_us = 0;
  SourceOptions sources;
  std::string format = "text";
};

/// Columns that rows may be grouped by, of any table.
constexpr std::array<std::string_view, 16> kGroupColumns = {
    "metric", "gpu",  "network", "model", "framework", "phase", "precision", "set",
    "gpu_id", "data", "source",  "op",    "pass",      "algo",  "dtype",     "timing"};

/// Rows pass when, for every column named, their value is one of those given.
class Selection {
 public:
  Selection(const std::vector<std::string>& only, const CsvReader& reader) {
    for (const std::string& text : only) {
      const std::size_t at = text.find('=');
      if (at == std::string::npos || at == 0) {
        throw InputError("--only", "\"" + text + "\"", "COLUMN=VALUE");
      }
      const std::string name = text.substr(0, at);
      const auto column = reader.find_column(name);
      if (!column) {
        throw InputError("--only", "\"" + name + "\"", describe_choices(name, reader.header()));
      }
      const auto known = std::find_if(wanted_.begin(), wanted_.end(),
                                      [&](const auto& entry) { return entry.first == *column; });
      if (known == wanted_.end()) {
        wanted_.push_back({*column, {text.substr(at + 1)}});
      } else {
        known->second.push_back(text.substr(at + 1));
      }
    }
  }
  [[nodiscard]] bool passes(const CsvReader& row) const {
    return std::all_of(wanted_.begin(), wanted_.end(), [&](const auto& entry) {
      const auto& values = entry.second;
      return std::find(values.begin(), values.end(), row.field(entry.first)) != values.end();
    });
  }

 private:
  std::vector<std::pair<std::size_t, std::vector<std::string>>> wanted_;
};

std::unique_ptr<RowPredictor> recognise(const CsvReader& reader, const Sources& sources) {
  std::string names;
  for (const auto& kinds : {network_tables(), mlperf_tables(), recurrent_tables(),
                            measurement_tables(), transformer_tables(), component_tables(),
                            collective_tables(), scaling_tables(), gavel_tables()}) {
    for (const TableKind& kind : kinds) {
      const bool matches = std::all_of(kind.required.begin(), kind.required.end(), [&](auto name) {
        return reader.find_column(name).has_value();
      });
      if (matches) return kind.make(reader, sources);
      if (!names.empty()) names += "; ";
      names += kind.name;
    }
  }
  std::string header;
  for (const std::string& column : reader.header()) {
    if (!header.empty()) header += ',';
    header += column;
    if (header.size() > 60) break;
  }
  throw InputError(reader.where(), "header " + header + "...", "a table I know: " + names);
}

int validate_command(const ValidateOptions& options) {
  const Sources sources = load_sources(options.sources);
  CsvReader reader(options.file, CsvReader::Repeated::Number);
  const std::unique_ptr<RowPredictor> predictor = recognise(reader, sources);
  if (!predictor->may_repeat_columns()) reader.refuse_repeated();
  const Selection selection(options.only, reader);
  const auto time_column = reader.find_column("time_us");
  if (options.min_us > 0 && !time_column) {
    throw InputError("--min-us", "a table without a column time_us", "a table of kernels");
  }

  Validation validation;
  validation.file = std::filesystem::path(options.file).filename().string();
  validation.table = predictor->table();
  validation.unit = predictor->unit();
  validation.convention = predictor->convention();
  validation.selection = options.only;
  validation.inputs.push_back(
      {"table", validation.file, sha256(read_file(options.file, 1ULL << 30))});
  validation.inputs.push_back(sources.cost_record);

  const auto id_column = reader.find_column("id");
  std::vector<std::size_t> group_columns;
  for (const std::string_view name : kGroupColumns) {
    if (const auto column = reader.find_column(name)) {
      group_columns.push_back(*column);
      validation.group_columns.emplace_back(name);
    }
  }
  while (reader.next()) {
    if (!selection.passes(reader)) continue;
    if (options.min_us > 0 &&
        parse_double(reader.field(*time_column)).value_or(0) < options.min_us) {
      continue;
    }
    RowAnswer answer = predictor->predict(reader);
    ValidatedRow row;
    row.id = id_column ? std::string(reader.field(*id_column)) : std::to_string(reader.line());
    row.measured = answer.measured;
    row.predicted = answer.predicted;
    row.basis = answer.basis;
    row.skipped = std::move(answer.skipped);
    row.error_in_points = answer.error_in_points;
    row.out_of_reach = std::move(answer.out_of_reach);
    for (const std::size_t column : group_columns) row.groups.emplace_back(reader.field(column));
    validation.rows.push_back(std::move(row));
  }

  write_answer(options.format == "json"  ? validation_json(validation)
               : options.format == "csv" ? validation_csv(validation)
                                         : validation_text(validation));
  return kExitDone;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* verb = app.add_subcommand("validate", "Predict every row of a table of measurements");
  verb->add_option("file", options->file, "Table, plain or gzip; known by its header")
      ->required()
      ->type_name("FILE.csv");
  verb->add_option("--only", options->only, "Rows with this value only; may be repeated")
      ->type_name("COLUMN=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--min-us", options->min_us, "Kernel rows of at least this time only")
      ->type_name("US");
  add_source_options(*verb, options->sources);
  add_format_option(*verb, options->format);
  verb->footer("Example: tracecast validate core.csv --only gpus=1 --only data=synthetic");
  verb->callback([options, &exit_code] { exit_code = validate_command(*options); });
}

}  // namespace tracecast
