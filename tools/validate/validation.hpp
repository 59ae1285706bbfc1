#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/measurement.hpp"
#include "calibrate/table/published_rows.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/step/interval.hpp"

namespace tracecast {

/// One row of a table of measurements beside what we predict for it.
struct ValidatedRow {
  std::string id;
  double measured = 0;              ///< in the table's unit
  Interval predicted;               ///< in the table's unit
  std::string_view basis;           ///< on which most of the predicted time rests
  std::string skipped;              ///< why there is no prediction; empty when there is one
  std::vector<std::string> groups;  ///< values of the table's group columns
  bool error_in_points = false;     ///< measured is a share already: errors are differences
  std::string out_of_reach;         ///< why the board cannot have measured this; empty = it can
  bool malformed = false;           ///< skipped for what stands in the file, not for what we lack
  std::size_t line = 0;             ///< in the file
  std::string metric;               ///< the figure's name: a column, or the unit where that says it
  std::string flag;                 ///< what sets the figure apart, joined by ";"; empty: nothing
  RowUse used_for = RowUse::None;   ///< before it judges anything
  RowUse interval_used_for = RowUse::None;  ///< the same of the interval's width alone
  /// Plain roofline and that of three constants in the table's unit; nothing for what is no kernel.
  std::optional<double> plain_roofline{}, three_roofline{};
  /// Rows with a flag other than "spread" are listed and told by flag, and counted in no other sum.
  [[nodiscard]] bool is_in_total() const {
    return skipped.empty() && (flag.empty() || flag == "spread");
  }
  [[nodiscard]] double error() const {
    const double difference = predicted.value - measured;
    return error_in_points ? difference : difference / measured;
  }
};

/// Basis of rows that the profile was fitted to: they test the fit and predict nothing.
inline constexpr std::string_view kFittedBasis = "fitted";

/// A prediction in the unit of a table, or the reason why there is none.
struct RowResult {
  double measured = 0;
  Interval predicted;
  std::string_view basis;
  std::string skipped;
  bool error_in_points = false;  ///< both are shares; the error is their difference
  std::string out_of_reach{};    ///< as ValidatedRow has it; such rows are judged as all others
  bool malformed = false;        ///< as ValidatedRow has it
  bool from_file = false;        ///< the network is a file's, not the zoo's
  std::string metric{}, flag{};  ///< alike; no metric: the table's
  RowUse used_for =
      RowUse::None;  ///< what the predictor knows of it beside the records of published sources
  std::optional<double> plain_roofline{}, three_roofline{};  ///< as ValidatedRow has them
};
/// A column that may hold "4.0"; nothing: empty, missing, no whole number, or above 10^9. Throws
/// InputError: not a positive number.
[[nodiscard]] inline std::optional<std::int64_t> whole(const RowFields& row,
                                                       std::string_view column) {
  if (row.text_or_empty(column).empty()) return std::nullopt;
  const double value = row.positive(column);
  if (value != std::floor(value) || value > 1e9) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

[[nodiscard]] inline RowResult skip(std::string reason) {
  return {.measured = 0, .predicted = {}, .basis = {}, .skipped = std::move(reason)};
}

/// Columns that say how something was run, whatever the table: a row is asked so, or it is skipped
/// with the reason.
inline constexpr std::array<std::string_view, 5> kConditionColumns = {
    "image_size", "seq_len", "channels_last", "compiled", "framework_version"};

/// Knows one kind of table: which columns mean what, and how its figures were measured.
class RowPredictor {
 public:
  virtual ~RowPredictor() = default;
  /// Whether rows are asked as this one of kConditionColumns says; of those that are not, rows that
  /// state it are skipped.
  [[nodiscard]] virtual bool honors(std::string_view) const { return false; }
  [[nodiscard]] virtual std::string_view table() const = 0;  ///< what it is called in reports
  [[nodiscard]] virtual std::string_view unit() const = 0;   ///< of measured and predicted: "us"
  /// Column of the figure; empty: the unit says what it is.
  [[nodiscard]] virtual std::string_view metric() const { return ""; }
  /// How a figure was measured and what we add to be comparable; one line, may be empty.
  [[nodiscard]] virtual std::string_view convention() const { return ""; }
  /// Column names may stand twice; the reader numbers them.
  [[nodiscard]] virtual bool may_repeat_columns() const { return false; }
  /// Reads the board's power in place of the time. False: the table holds none.
  virtual bool use_power() { return false; }
  /// Reads one engine's figures. False: the table does not tell engines apart.
  virtual bool use_engine(std::string_view) { return false; }
  /// Predicts rows of networks in the folder (NetworkFolder) from these files. False: the table's
  /// rows do not name networks so.
  virtual bool use_networks(const std::filesystem::path&) { return false; }
  /// Whether a row has several figures, told apart by their metric.
  [[nodiscard]] virtual bool has_figures() const { return false; }
  /// The current row of the reader. Throws InputError when the row is malformed.
  [[nodiscard]] virtual RowResult predict(const CsvReader& row) = 0;
  /// All figures of the current row.
  [[nodiscard]] virtual std::vector<RowResult> predict_all(const CsvReader& row) {
    return {predict(row)};
  }
};

/// A kind of table: recognised by its header.
struct TableKind {
  std::string_view name;
  std::vector<std::string_view> required;  ///< columns that tell it from the others
  std::function<std::unique_ptr<RowPredictor>(const CsvReader&, const Hardware&)> make;
};
/// Whole-network rows; recurrent layers measured alone; language networks.
[[nodiscard]] std::vector<TableKind> network_tables();
[[nodiscard]] std::vector<TableKind> recurrent_tables();
/// Results of MLPerf Training, data-parallel ones.
[[nodiscard]] std::vector<TableKind> mlperf_tables();
/// Kernels, library calls and framework layers measured alone: what calibration fits too.
[[nodiscard]] std::vector<TableKind> measurement_tables();
[[nodiscard]] std::vector<TableKind> transformer_tables();
/// Collectives measured alone.
[[nodiscard]] std::vector<TableKind> collective_tables();
/// Collectives of the tables of GPUs of 2020 and later (data/modern).
[[nodiscard]] std::vector<TableKind> modern_collective_tables();
/// Training steps of sharded transformers.
[[nodiscard]] std::vector<TableKind> scaling_tables();
/// Board power and GPU utilisation of published runs.
[[nodiscard]] std::vector<TableKind> component_tables();

/// Training programs alone and two to a GPU (data/jobs).
[[nodiscard]] std::vector<TableKind> gavel_tables();

/// Steps of training programs on one or several GPUs (data/cluster).
[[nodiscard]] std::vector<TableKind> step_time_tables();

/// Language models that answer requests (data/serving).
[[nodiscard]] std::vector<TableKind> served_tables();

/// All rows of a table with their predictions.
struct Validation {
  std::string file, sha256;
  std::string table, unit, convention;
  std::vector<std::string> group_columns;
  std::vector<ValidatedRow> rows;
  std::vector<InputRecord> inputs;
  std::vector<std::string> selection;  ///< as given with --only
};
/// Whether any row was predicted: without one there is no error to speak of.
[[nodiscard]] bool is_judged(const Validation& validation);
[[nodiscard]] std::string validation_text(const Validation& validation);
[[nodiscard]] std::string validation_json(const Validation& validation);
/// One line per row, skipped ones with their reason.
[[nodiscard]] std::string validation_csv(const Validation& validation);

/// Specs and framework profiles for readers of measurements; refers to `hardware`.
[[nodiscard]] MeasurementContext measurement_context(const Hardware& hardware);

/// The basis with the greatest share of the time.
[[nodiscard]] std::string_view main_basis(const Prediction& prediction);

}  // namespace tracecast
