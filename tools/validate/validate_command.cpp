#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/only_rows.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/report/page.hpp"
#include "tools/validate/validation_page.hpp"

namespace tracecast {
namespace {

struct ValidateOptions {
  std::string file;
  std::vector<std::string> only;
  double min_us = 0;
  std::string engine;
  std::string networks;  ///< folder
  bool power = false;
  SourceOptions sources;
  std::string format = "text";
  std::string report;  ///< file
};

/// Columns that rows may be grouped by, of any table.
constexpr std::array<std::string_view, 21> kGroupColumns = {
    "metric", "gpu",    "network", "model",    "framework", "phase",         "precision",
    "set",    "gpu_id", "data",    "source",   "op",        "pass",          "algo",
    "dtype",  "timing", "op_name", "num_gpus", "num_nodes", "kernel_source", "gemm_dtype"};

/// The kinds of tables there are, in the order in which headers are held against them.
std::vector<TableKind> all_tables() {
  std::vector<TableKind> all;
  for (auto& kinds :
       {network_tables(), mlperf_tables(), recurrent_tables(), measurement_tables(),
        transformer_tables(), component_tables(), collective_tables(), modern_collective_tables(),
        scaling_tables(), gavel_tables(), step_time_tables(), served_tables()}) {
    all.insert(all.end(), kinds.begin(), kinds.end());
  }
  return all;
}

/// Of a kind's columns, those that the table lacks.
std::vector<std::string> lacking(const TableKind& kind, const CsvReader& reader) {
  std::vector<std::string> columns;
  for (const std::string_view name : kind.required) {
    if (!reader.find_column(name)) columns.emplace_back(name);
  }
  return columns;
}

/// The missing column that one of the table's may be meant for: "batch" for batch_per_gpu. One that
/// the kind has as it is means itself.
std::optional<std::string> meant_for(const std::string& column, const TableKind& kind,
                                     const std::vector<std::string>& missing) {
  if (std::find(kind.required.begin(), kind.required.end(), column) != kind.required.end())
    return std::nullopt;
  const auto meant = std::find_if(missing.begin(), missing.end(), [&](const std::string& name) {
    return column.size() >= 4 && name.find(to_lower(column)) != name.npos;
  });
  return meant == missing.end() ? std::nullopt : std::optional(*meant);
}

/// Says what the header lacks to be the table that it is nearest to: whole networks, unless it has
/// more of another.
[[noreturn]] void refuse_header(const CsvReader& reader, const std::vector<TableKind>& tables) {
  const auto nearness = [&reader](const TableKind& kind) {
    const std::vector<std::string> missing = lacking(kind, reader);
    auto near = 2 * (kind.required.size() - missing.size());
    for (const std::string& column : reader.header())
      near += meant_for(column, kind, missing) ? 1 : 0;
    return near;
  };
  const TableKind* nearest = &tables.front();
  for (const TableKind& kind : tables) {
    if (nearness(kind) > nearness(*nearest)) nearest = &kind;
  }
  const std::vector<std::string> missing = lacking(*nearest, reader);
  std::string found = fmt::format("a header without {}", fmt::join(missing, ", "));
  for (const std::string& column : reader.header()) {
    if (const auto meant = meant_for(column, *nearest, missing)) {
      found += fmt::format(" (is \"{}\" the {}?)", column, *meant);
    }
  }
  std::string expected =
      fmt::format("columns {} for {}", fmt::join(nearest->required, ", "), nearest->name);
  if (nearest == &tables.front()) {
    expected += "; the smallest table stands in tracecast validate --help";
  }
  throw InputError(reader.where(), found, expected);
}

std::unique_ptr<RowPredictor> recognise(const CsvReader& reader, const Hardware& hardware) {
  const std::vector<TableKind> tables = all_tables();
  for (const TableKind& kind : tables) {
    if (lacking(kind, reader).empty()) return kind.make(reader, hardware);
  }
  refuse_header(reader, tables);
}

/// Goes through a table row by row. What is wrong with a row costs that row and no other; what is
/// wrong with the file from some place on (packed data that ends early, a quote that never closes)
/// costs the file.
class RowWalk {
 public:
  RowWalk(CsvReader& reader, RowPredictor& predictor) : reader_(reader), predictor_(predictor) {
    for (const std::string_view name : kConditionColumns) {
      const auto column = reader.find_column(name);
      if (column && !predictor.honors(name)) unasked_.emplace_back(name, *column);
    }
  }

  /// Goes to the next row; false at the end.
  bool next() {
    misfit_.clear();
    try {
      return reader_.next();
    } catch (const InputError& error) {
      if (!reader_.is_misfit()) throw;
      misfit_ = error.what();
      return true;
    }
  }
  /// The current row has another number of fields than the header.
  [[nodiscard]] bool is_misfit() const { return !misfit_.empty(); }
  std::vector<RowResult> predict() {
    if (is_misfit()) return {malformed(misfit_)};
    for (const auto& [name, column] : unasked_) {
      const std::string_view text = reader_.field(column);
      if (text.empty() || text == "no") continue;
      return {skip(fmt::format("{} \"{}\": rows of {} are not predicted by it", name, text,
                               predictor_.table()))};
    }
    try {
      return predictor_.predict_all(reader_);
    } catch (const InputError& error) {
      const std::string reason = error.what();
      return {reason.starts_with(reader_.where()) ? malformed(reason) : skip(reason)};
    }
  }
  /// Throws InputError when rows were there, and all of them malformed: the table is wrong, not
  /// some row.
  void check(std::size_t rows) const {
    if (rows == 0 || num_malformed_ < rows) return;
    throw InputError(reader_.file_name(),
                     rows == 1 ? first_ : fmt::format("{} (and {} rows more)", first_, rows - 1),
                     "a row that can be read");
  }

 private:
  RowResult malformed(const std::string& reason) {
    if (num_malformed_++ == 0) first_ = reason;
    RowResult report = skip(reason);
    report.malformed = true;
    return report;
  }

  CsvReader& reader_;
  RowPredictor& predictor_;
  std::vector<std::pair<std::string_view, std::size_t>>
      unasked_;  ///< columns of kConditionColumns that the predictor does not read
  std::string misfit_, first_;
  std::size_t num_malformed_ = 0;
};

int validate_command(ValidateOptions& options) {
  check_report(options.report);
  StandardInput input;
  input.resolve(options.file, kMostPipedTable);
  const Hardware hardware = load_hardware(options.sources);
  CsvReader reader(options.file, CsvReader::Repeated::Number);
  const std::unique_ptr<RowPredictor> predictor = recognise(reader, hardware);
  if (!predictor->may_repeat_columns()) reader.refuse_repeated();
  if (!options.engine.empty() && !predictor->use_engine(options.engine)) {
    throw InputError("--engine", "a table without figures of " + options.engine,
                     "one with a column for each inference engine, or no --engine");
  }
  if (options.power && !predictor->use_power()) {
    throw InputError("--power", "a table without a column power_w", "a table with board power");
  }
  if (!options.networks.empty() && !predictor->use_networks(options.networks)) {
    throw InputError("--networks",
                     "a table without networks by network_as_published and image_size",
                     "one with these columns, such as timm.csv");
  }
  OnlyRows selection(options.only, reader);
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
  validation.inputs.push_back(hardware.cost_record());

  const auto id_column = reader.find_column("id");
  std::vector<std::size_t> group_columns;
  if (predictor->has_figures()) validation.group_columns.emplace_back("metric");
  for (const std::string_view name : kGroupColumns) {
    if (const auto column = reader.find_column(name)) {
      group_columns.push_back(*column);
      validation.group_columns.emplace_back(name);
    }
  }
  const auto published_name =
      options.networks.empty() ? std::nullopt : reader.find_column("network_as_published");
  if (published_name) {
    validation.group_columns.emplace_back("network_from");
    validation.group_columns.emplace_back("network_as_published");
  }
  RowWalk walk(reader, *predictor);
  const PublishedRows records(hardware.specs(), reader);
  std::size_t num_rows = 0, num_passed = 0;
  double longest_us = 0;
  while (walk.next()) {
    ++num_rows;
    if (!walk.is_misfit()) {
      if (!selection.passes(reader)) continue;
      if (options.min_us > 0) {
        const double time_us = parse_double(reader.field(*time_column)).value_or(0);
        longest_us = std::max(longest_us, time_us);
        if (time_us < options.min_us) continue;
      }
      ++num_passed;
    }  // else nobody can say what it would be selected by: it is listed
    for (RowResult& report : walk.predict()) {
      ValidatedRow row;
      row.id = id_column && !walk.is_misfit() ? std::string(reader.field(*id_column))
                                              : std::to_string(reader.line());
      row.measured = report.measured;
      row.predicted = report.predicted;
      row.basis = report.basis;
      row.skipped = std::move(report.skipped);
      row.malformed = report.malformed;
      row.error_in_points = report.error_in_points;
      row.out_of_reach = std::move(report.out_of_reach);
      row.line = reader.line();
      const std::string_view metric = report.metric.empty() ? predictor->metric() : report.metric;
      row.metric = metric.empty() ? predictor->unit() : metric;
      if (predictor->has_figures() && !row.malformed) row.id += '.' + row.metric;
      row.flag = std::move(report.flag);
      row.plain_roofline = report.plain_roofline;
      row.three_roofline = report.three_roofline;
      row.used_for = row.basis == kFittedBasis ? RowUse::Fit : report.used_for;
      if (!walk.is_misfit()) {
        const PublishedRecords::Used used = records.used_for(reader);
        row.used_for = std::max(row.used_for, used.value);
        row.interval_used_for =
            std::max(used.interval, row.used_for == RowUse::Fit ? RowUse::Fit : RowUse::None);
      }
      if (predictor->has_figures()) row.groups.push_back(row.metric);
      for (const std::size_t column : group_columns) {
        row.groups.emplace_back(walk.is_misfit() ? std::string_view() : reader.field(column));
      }
      if (published_name) {
        row.groups.emplace_back(report.from_file ? "file" : "zoo");
        row.groups.emplace_back(walk.is_misfit() ? std::string_view()
                                                 : reader.field(*published_name));
      }
      validation.rows.push_back(std::move(row));
    }
  }
  if (num_rows == 0) throw InputError(reader.file_name(), "a header and no rows", "rows");
  selection.check(num_passed > 0 || options.min_us > 0 || options.only.empty());
  if (validation.rows.empty()) {
    throw InputError("--min-us", fmt::format("{:g}: no row takes that long", options.min_us),
                     fmt::format("at most {:g}, the longest", longest_us));
  }
  walk.check(validation.rows.size());

  if (!options.report.empty()) write_page(validation_page(validation), options.report);
  write_report(options.format == "json"  ? validation_json(validation)
               : options.format == "csv" ? validation_csv(validation)
                                         : validation_text(validation));
  return is_judged(validation) ? kExitDone : kExitNo;
}

/// A table of two rows that `validate` answers; a test runs it.
constexpr const char* kSmallestTable =
    "gpu,gpus,framework,precision,network,phase,batch_per_gpu,samples_per_s\n"
    "RTX 4090,1,pytorch,amp,resnet50,train,64,1200\n"
    "Tesla V100-SXM2-16GB,1,pytorch,fp32,resnet50,train,64,350\n";

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* subcommand =
      app.add_subcommand("validate", "Predict every row of a table of measurements");
  subcommand
      ->add_option("file", options->file,
                   "Table, plain or gzip, - for standard input; known by its header")
      ->required()
      ->type_name("FILE.csv");
  subcommand->add_option("--only", options->only, "Rows with this value only; may be repeated")
      ->type_name("COLUMN=VALUE")
      ->allow_extra_args(false);
  subcommand->add_option("--min-us", options->min_us, "Kernel rows of at least this time only")
      ->type_name("US")
      ->check(number_within(0, 1e12));
  subcommand
      ->add_option("--engine", options->engine,
                   "Figures of this inference engine, in tables that have several")
      ->check(CLI::IsMember({"trtllm", "sglang", "vllm"}));
  subcommand
      ->add_option("--networks", options->networks,
                   "ONNX files by files.csv (file, model, image_size): rows with this "
                   "network_as_published and image_size are predicted from them")
      ->type_name("FOLDER");
  subcommand->add_flag("--power", options->power,
                       "Board power in place of the time, in tables that have both");
  add_source_options(*subcommand, options->sources);
  add_format_option(*subcommand, options->format);
  add_report_option(*subcommand, options->report);
  subcommand->footer(
      std::string(
          "A table of your own needs these columns, in any order, others beside them:\n\n") +
      kSmallestTable +
      "\nA row that is malformed or cannot be predicted is listed with the reason;\n"
      "where none can be, the exit code is 1.\n\n"
      "Example: tracecast validate core.csv --only gpus=1 --only data=synthetic");
  subcommand->callback([options, &exit_code] { exit_code = validate_command(*options); });
}

}  // namespace tracecast
