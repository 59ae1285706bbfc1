#pragma once
#include "calibrate/table/csv_reader.hpp"
#include "hwspecs/library.hpp"
#include "hwspecs/software/published_source.hpp"

namespace tracecast {

/// What the records of published sources (hwspecs/published) say of a table's rows.
class PublishedRows {
 public:
  /// `table`: its header and file name decide which records there may be.
  PublishedRows(const SpecLibrary& specs, const CsvReader& table);
  /// Of the current row of that table: what its program does that columns do not say, and what the
  /// row was used for.
  [[nodiscard]] PublishedProgram program_of(const CsvReader& row) const;
  [[nodiscard]] PublishedRecords::Used used_for(const CsvReader& row) const;

 private:
  SpecLibrary specs_;  ///< holds what the records point to
  PublishedRecords records_;
};

}  // namespace tracecast
