#include "calibrate/table/published_rows.hpp"

#include "calibrate/table/row_fields.hpp"

namespace tracecast {
namespace {

RowField field_of(const CsvReader& row) {
  return [&row](std::string_view column) { return RowFields(row).text_or_empty(column); };
}

}  // namespace

PublishedRows::PublishedRows(const SpecLibrary& specs, const CsvReader& table)
    : specs_(specs), records_(specs_.published_sources(), table.file_name(), table.header()) {}

PublishedProgram PublishedRows::program_of(const CsvReader& row) const {
  return records_.program_of(field_of(row));
}

PublishedRecords::Used PublishedRows::used_for(const CsvReader& row) const {
  return records_.used_for(field_of(row));
}

}  // namespace tracecast
