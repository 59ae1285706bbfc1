#pragma once
#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/foreign_text.hpp"

namespace tracecast {

/// A cell of a CSV file: text as `csv_field` has it, whoever wrote it; a number to its last digit,
/// as JSON has it, and nothing where JSON has null (no number, or none that is finite).
[[nodiscard]] inline std::string csv_cell(std::string_view text) { return csv_field(text); }
[[nodiscard]] inline std::string csv_cell(const char* text) { return csv_field(text); }
template <std::integral Whole>
[[nodiscard]] std::string csv_cell(Whole number) {
  static_assert(!std::same_as<Whole, bool>, "say which words stand for it");
  return fmt::format("{}", number);
}
[[nodiscard]] inline std::string csv_cell(double number) {
  return std::isfinite(number) ? fmt::format("{}", number) : std::string();
}
template <class Value>
[[nodiscard]] std::string csv_cell(const std::optional<Value>& value) {
  return value ? csv_cell(*value) : std::string();
}

/// A row with its line break: the one way to write a line of CSV.
template <class... Cells>
[[nodiscard]] std::string csv_line(const Cells&... cells) {
  std::string line;
  ((line += csv_cell(cells), line += ','), ...);
  line.back() = '\n';
  return line;
}

/// A table of one row whose columns are named as they are added.
class CsvRecord {
 public:
  template <class Cell>
  void add(std::string_view name, const Cell& cell) {
    header_ += (header_.empty() ? "" : ",") + csv_field(name);
    row_ += (is_first_ ? "" : ",") + csv_cell(cell);
    is_first_ = false;
  }
  /// Three columns: NAME_UNIT, NAME_low_UNIT, NAME_high_UNIT.
  void add_interval(const std::string& name, const std::string& unit, double value, double low,
                    double high) {
    add(name + '_' + unit, value);
    add(name + "_low_" + unit, low);
    add(name + "_high_" + unit, high);
  }
  [[nodiscard]] std::string text() const { return header_ + '\n' + row_ + '\n'; }

 private:
  std::string header_, row_;
  bool is_first_ = true;
};

}  // namespace tracecast
