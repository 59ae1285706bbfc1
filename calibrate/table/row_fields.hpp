#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "calibrate/table/csv_reader.hpp"

namespace tracecast {

/// Reads fields of the current row by column, with errors that name file, line and column.
class RowFields {
 public:
  explicit RowFields(const CsvReader& reader) : reader_(reader) {}
  /// Index of a column that must exist.
  [[nodiscard]] std::size_t column(std::string_view name) const;
  [[nodiscard]] std::string_view text(std::string_view name) const;
  /// Empty when there is no such column.
  [[nodiscard]] std::string_view text_or_empty(std::string_view name) const;
  /// Column "gpu", as the table means it (gpu_word).
  [[nodiscard]] std::string_view gpu() const;
  [[nodiscard]] double positive(std::string_view name) const;
  /// Whole number from `low` to `high`.
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t low,
                                     std::int64_t high = 1'000'000'000) const;

 private:
  const CsvReader& reader_;
};

}  // namespace tracecast
