#include <doctest/doctest.h>
#include <sqlite3.h>

#include <filesystem>
#include <string>

#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;

void make_database(const fs::path& path, const std::string& sql) {
  fs::remove(path);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  const int code = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr);
  CAPTURE(std::string(sqlite3_errmsg(database)));
  CHECK(code == SQLITE_OK);
  sqlite3_close(database);
}

/// What Nsight Systems writes of a run with `rows` kernels, on pages of 512 bytes.
std::string tables(int rows) {
  return "PRAGMA page_size = 512;"
         "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
         "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
         "streamId INTEGER, correlationId INTEGER, demangledName INTEGER);"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
         "correlationId INTEGER, nameId INTEGER);"
         "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT " +
         std::to_string(rows) +
         ") INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i * 10, i * 10 + 5, 0, 7, i, 1 FROM n;"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT start - 5, start, 5, correlationId, 2 "
         "FROM "
         "CUPTI_ACTIVITY_KIND_KERNEL;";
}

}  // namespace

TEST_CASE("databases that are made to harm end in one line, quickly") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "hostile.sqlite";
  make_database(path, tables(100));
  check_reports({"trace", "summary", path});
  const std::string endless =
      "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i AS ";
  struct Row {
    const char* what;
    std::string sql;
  };
  const Row rows[] = {
      {"a view without end",
       "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS " + endless + "start, i AS end FROM n;"},
      {"a view of texts without end", tables(10) +
                                          "DROP TABLE StringIds; CREATE VIEW StringIds AS " +
                                          endless + "id, hex(zeroblob(1000000)) AS value FROM n;"},
      {"views within views",
       "CREATE TABLE t (start, end);"
       "CREATE VIEW a AS SELECT t.* FROM t, t, t, t, t, t, t, t;"
       "CREATE VIEW b AS SELECT a.* FROM a, a, a, a, a, a, a, a;"
       "CREATE VIEW c AS SELECT b.* FROM b, b, b, b, b, b, b, b;"
       "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT c.* FROM c, c, c, c, c, c, c, c;"},
      {"a virtual table",
       "CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_KERNEL USING fts5(start, end);"},
      {"a text of 20 MiB",
       tables(10) + "INSERT INTO StringIds VALUES (9, printf('%.20971520c', 'x'));"},
      {"no tables", "CREATE TABLE t (a);"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    make_database(path, row.sql);
    check_refuses({"trace", "summary", path});
    check_refuses({"trace", "replay", path, "--as-recorded"});
  }
}

TEST_CASE("what a database computes is not computed for it") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "generated.sqlite";
  make_database(path,
                "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, streamId "
                "INTEGER AS (length(hex(zeroblob(400000000)))));"
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end) VALUES (1, 2), (3, 4);");
  check_reports({"trace", "summary", path});
}

TEST_CASE("databases with damaged pages end in good order, and nothing stands beside them") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "damaged.sqlite";
  make_database(path, tables(300));
  const std::string whole = read_file(path, 1 << 24);
  const std::size_t pages = whole.size() / 512;
  Random random(5);
  for (int copy = 0; copy < 40; ++copy) {
    std::string damaged = whole;
    for (int changes = 0; changes <= copy % 5; ++changes) {
      const std::size_t page = random.below(pages) * 512;
      if (copy % 3 == 0) damaged.replace(page, 512, whole, random.below(pages) * 512, 512);
      if (copy % 3 == 1) damaged[page + random.below(16)] = static_cast<char>(random.below(256));
      if (copy % 3 == 2) damaged[page + random.below(512)] = static_cast<char>(random.below(256));
    }
    if (copy % 8 == 7) damaged.resize(random.below(damaged.size()));
    CAPTURE(copy);
    write_file(path, damaged);
    check_survives({"trace", "summary", path});
  }
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) files += entry.exists() ? 1 : 0;
  CHECK(files == 1);
}

}  // namespace tracecast::test
