#include <doctest/doctest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows read(const std::string& content) {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "t.csv", content);
  CsvReader reader(folder.path() / "t.csv");
  Rows rows{reader.header()};
  while (reader.next()) {
    rows.emplace_back();
    for (std::size_t c = 0; c < reader.header().size(); ++c) {
      rows.back().emplace_back(reader.field(c));
    }
  }
  return rows;
}

TEST_SUITE_BEGIN("tools/csv_reader");

TEST_CASE("fields may be quoted, lines may end either way") {
  struct Row {
    const char* what;
    const char* content;
    Rows expected;
  };
  const Row rows[] = {
      {"plain", "a,b\n1,2\n", {{"a", "b"}, {"1", "2"}}},
      {"no line break at the end", "a,b\n1,2", {{"a", "b"}, {"1", "2"}}},
      {"carriage returns", "a,b\r\n1,2\r\n", {{"a", "b"}, {"1", "2"}}},
      {"a comma inside quotes", "a,b\n\"1,5\",2\n", {{"a", "b"}, {"1,5", "2"}}},
      {"a line break inside quotes", "a,b\n\"1\n5\",2\n", {{"a", "b"}, {"1\n5", "2"}}},
      {"doubled quotes", "a,b\n\"say \"\"hi\"\"\",2\n", {{"a", "b"}, {"say \"hi\"", "2"}}},
      {"empty fields", "a,b\n,\n", {{"a", "b"}, {"", ""}}},
      {"empty lines are skipped", "a,b\n\n1,2\n\n", {{"a", "b"}, {"1", "2"}}},
      {"a byte order mark",
       "\xEF\xBB\xBF"
       "a,b\n1,2\n",
       {{"a", "b"}, {"1", "2"}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(read(row.content) == row.expected);
  }
}

TEST_CASE("gzip is read as what it holds") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() / "t.csv.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  REQUIRE(gzputs(file, "a,b\n1,2\n") > 0);
  gzclose(file);
  CsvReader reader(path);
  REQUIRE(reader.next());
  CHECK(reader.field(1) == "2");
  CHECK_FALSE(reader.next());
}

TEST_CASE("errors name the line") {
  const auto message = [](const std::string& content) {
    try {
      (void)read(content);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(message("a,b\n1,2\n\"x\ny\",2\n1,2,3\n").find("t.csv:5") != std::string::npos);
  CHECK(message("a,b\n1\n").find("1 fields") != std::string::npos);
  CHECK(message("a,b\n\"1,2\n").find("quote") != std::string::npos);
  CHECK(message("a,a\n").find("twice") != std::string::npos);
  CHECK(message("a,b\n" + std::string(2 << 20, 'x')).find("1 MiB") != std::string::npos);
  CHECK(message(std::string(300, ',')).find("256 columns") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
