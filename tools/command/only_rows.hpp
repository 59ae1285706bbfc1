#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "calibrate/table/csv_reader.hpp"

namespace tracecast {

/// `--only COLUMN=VALUE`, several times: rows pass when, for every column named, their value is one
/// of those given.
class OnlyRows {
 public:
  /// Throws InputError: no "=", a column that the file does not have.
  OnlyRows(const std::vector<std::string>& only, const CsvReader& reader);
  [[nodiscard]] bool passes(const CsvReader& row);
  /// Says which values no row has. Throws InputError where no row has any of a column's, and where
  /// `any` is false: nothing passed.
  void check(bool any) const;

 private:
  static constexpr std::size_t kMostOthers = 2000;
  struct Wanted {
    std::string name;
    std::size_t column;
    std::vector<std::string> values;
    std::set<std::string> found;   ///< of them, in rows
    std::set<std::string> others;  ///< what the column holds, to suggest
  };
  std::vector<Wanted> wanted_;
};

}  // namespace tracecast
