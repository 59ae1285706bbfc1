#include "calibrate/table/published_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "calibrate/table/row_fields.hpp"
#include "tests/support/data.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("calibrate/table/published_rows");

/// Whether a record is of this row's source or table, and not of rows of any source.
bool is_of(const PublishedSource& record, const CsvReader& row) {
  const auto names_source = [](const RowCondition& condition) {
    return condition.columns.front() != "notes" && condition.columns.front() != "note" &&
           condition.columns.front() != "model";
  };
  const auto& where = record.rows.where;
  const bool is_particular =
      record.id != "core_table" &&
      (!record.rows.tables.empty() || std::any_of(where.begin(), where.end(), names_source));
  std::string table = row.file_name();
  if (table.ends_with(".gz")) table.resize(table.size() - 3);
  return is_particular && record.rows.may_select(table, row.header()) &&
         record.rows.selects(
             [&](std::string_view column) { return RowFields(row).text_or_empty(column); });
}

TEST_CASE("every row of the measured data is of a source with a record") {
  // Of the long tables the first row stands for all: one source each, or one per value of the
  // column `source`.
  struct Folder {
    const char* name;
    bool every_row;
  };
  const SpecLibrary& specs = SpecLibrary::embedded();
  for (const Folder& folder :
       {Folder{"published", true}, Folder{"jobs", true}, Folder{"kernels", false},
        Folder{"modern", false}, Folder{"serving", false}, Folder{"cluster", false}}) {
    const auto path = test::find_data(folder.name);
    if (!path) return;
    for (const auto& file : std::filesystem::directory_iterator(*path)) {
      const std::string name = file.path().filename().string();
      if (name.find(".csv") == std::string::npos || name == "ids.csv" || name == "devices.csv" ||
          name == "sparse_gemm.csv" || name == "model_configs.csv") {
        continue;  // no measurements, or none that is predicted
      }
      CAPTURE(name);
      CsvReader row(file.path());
      while (row.next()) {
        const auto& all = specs.published_sources();
        const bool has_record =
            std::any_of(all.begin(), all.end(),
                        [&](const PublishedSource& record) { return is_of(record, row); });
        CAPTURE(RowFields(row).text_or_empty("source"));
        CHECK(has_record);
        if (!folder.every_row || !has_record) break;
      }
    }
  }
}

TEST_CASE("records are asked with a reader's row, whatever columns the table has") {
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "rows.csv";
  std::ofstream(path) << "source,dtype,note\n"
                         "deepbench,fp16_tensor_core,multi-node (InfiniBand)\n"
                         "dlperf,fp32,\n"
                         "me,fp16_tensor_core,InfiniBand\n";
  CsvReader reader(path);
  const PublishedRows rows(SpecLibrary::embedded(), reader);
  REQUIRE(reader.next());
  CHECK(rows.program_of(reader).calls.image_layout == "NHWC");
  CHECK(rows.program_of(reader).calls.multiple == 8);
  CHECK(rows.program_of(reader).calls.algorithm == "IMPLICIT_PRECOMP_GEMM");
  CHECK(rows.program_of(reader).link == "infiniband_fdr");
  CHECK_FALSE(rows.program_of(reader).calls.ecc);
  REQUIRE(reader.next());
  CHECK(rows.program_of(reader).calls.ecc.value());
  REQUIRE(reader.next());
  CHECK(rows.program_of(reader).calls.image_layout.empty());
  CHECK(rows.program_of(reader).link.empty());
  CHECK(rows.used_for(reader).value == RowUse::None);
}

}  // namespace
}  // namespace tracecast
