#include "sim/store/sweep_store.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/store/query.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

using store::ColumnType;
using store::PointRow;
using store::PointTable;
using store::SweepStore;
using store::Value;

TEST_SUITE_BEGIN("sim/store/sweep_store");

const std::vector<PointTable> kTables = {{"cakes",
                                          {{"eggs", ColumnType::Integer},
                                           {"weight_kg", ColumnType::Real},
                                           {"refused", ColumnType::Text}}}};

PointRow row(std::int64_t point, const std::string& question, const std::string& state, Value eggs,
             Value weight) {
  return {
      0, point, question, state, "1", "predicted", "hash", "[]", {eggs, weight, std::monostate()}};
}

std::vector<std::vector<Value>> rows(const std::filesystem::path& file, const std::string& sql) {
  std::vector<std::vector<Value>> found;
  store::query(
      file, sql, {}, [](const auto&) {},
      [&](const std::vector<Value>& values) { found.push_back(values); });
  return found;
}

TEST_CASE("rows come back with their types, and a changed one keeps its place") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "results.db";
  SweepStore opened(file, kTables);
  CHECK(opened.empty());
  CHECK(!opened.find(0, "q1"));
  const std::vector<PointRow> first = {row(7, "q1", "a", std::int64_t{3}, 0.1),
                                       row(8, "q2", "a", std::monostate(), 1e-300)};
  opened.put(first);
  CHECK(!opened.empty());
  const std::vector<PointRow> changed = {row(99, "q1", "b", std::int64_t{4}, 0.25)};
  opened.put(changed);
  const auto known = opened.find(0, "q1");
  REQUIRE(known);
  CHECK(known->point == 7);
  CHECK(known->state == "b");
  opened.close();
  CHECK(!std::filesystem::exists(file.string() + "-wal"));
  const auto found = rows(file, "SELECT point, eggs, weight_kg FROM cakes ORDER BY point");
  REQUIRE(found.size() == 2);
  CHECK(found[0] == std::vector<Value>{std::int64_t{7}, std::int64_t{4}, 0.25});
  CHECK(found[1] == std::vector<Value>{std::int64_t{8}, std::monostate(), 1e-300});
  CHECK(rows(file, "SELECT * FROM inputs").size() == 1);
}

TEST_CASE("points are numbered in the order of grids, and a grid has its numbers for ever") {
  const TemporaryFolder folder;
  SweepStore opened(folder.path() / "results.db", kTables);
  CHECK(opened.first_point("a", 10) == 0);
  CHECK(opened.first_point("b", 5) == 10);
  CHECK(opened.first_point("a", 10) == 0);
  CHECK(opened.first_point("c", 1) == 15);
}

TEST_CASE("a transaction that fails leaves nothing, and what is there goes on to work") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "results.db";
  SweepStore opened(file, kTables);
  // Two questions on one place: the second is refused, and the first with it.
  const std::vector<PointRow> clash = {row(1, "q1", "a", {}, {}), row(1, "q2", "a", {}, {})};
  CHECK_THROWS_AS(opened.put(clash), InputError);
  CHECK(!opened.find(0, "q1"));
  const std::vector<PointRow> right = {row(1, "q1", "a", {}, {})};
  opened.put(right);
  CHECK(opened.find(0, "q1"));
}

TEST_CASE("a file of other columns is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "results.db";
  SweepStore(file, kTables).close();
  std::vector<PointTable> others = kTables;
  others[0].columns[0].name = "flour_g";
  CHECK_THROWS_AS(SweepStore(file, others), InputError);
  others = kTables;
  others[0].columns.push_back({"sugar_g", ColumnType::Real});
  CHECK_THROWS_AS(SweepStore(file, others), InputError);
}

/// Runs SQL on a file as somebody else would.
void change(const std::filesystem::path& file, const char* sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  char* error = nullptr;
  const int code = sqlite3_exec(database, sql, nullptr, nullptr, &error);
  CAPTURE(std::string(error == nullptr ? "" : error));
  REQUIRE(code == SQLITE_OK);
  sqlite3_close(database);
}

TEST_CASE("a file with code of somebody else's making is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "results.db";
  for (const char* code :
       {"CREATE TRIGGER thief AFTER INSERT ON cakes BEGIN DELETE FROM cakes; END",
        "CREATE TRIGGER thief BEFORE INSERT ON cakes BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER thief BEFORE INSERT ON inputs BEGIN SELECT RAISE(IGNORE); END",
        "CREATE VIEW thief AS SELECT * FROM cakes",
        "CREATE VIRTUAL TABLE thief USING fts5(words)"}) {
    CAPTURE(std::string(code));
    SweepStore(file, kTables).close();
    change(file, code);
    try {
      SweepStore opened(file, kTables);
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("thief") != std::string::npos);
    }
    std::filesystem::remove(file);
  }
  // An index is anybody's right.
  SweepStore(file, kTables).close();
  change(file, "CREATE INDEX by_eggs ON cakes (eggs)");
  CHECK_NOTHROW(SweepStore(file, kTables).close());
}

TEST_CASE(
    "a row that a table drops in silence is missed, and so is one that a trigger of later would "
    "take") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "results.db";
  SweepStore(file, kTables).close();
  change(file,
         "DROP TABLE cakes; CREATE TABLE cakes (point INTEGER PRIMARY KEY ON CONFLICT IGNORE, "
         "question_sha256 TEXT NOT NULL "
         "UNIQUE, state_sha256 TEXT NOT NULL, inputs_sha256 TEXT, version TEXT NOT NULL, status "
         "TEXT NOT NULL , eggs INTEGER, weight_kg REAL, refused TEXT)");
  SweepStore opened(file, kTables);
  const std::vector<PointRow> first = {row(7, "q1", "a", std::int64_t{3}, 0.1)},
                              again = {row(7, "q2", "a", {}, {})};
  opened.put(first);
  CHECK_THROWS_AS(opened.put(again), InputError);
  CHECK(opened.find(0, "q1"));
  // Planted while the file is open: it does not run.
  change(file, "CREATE TRIGGER thief AFTER INSERT ON cakes BEGIN DELETE FROM cakes; END");
  const std::vector<PointRow> third = {row(9, "q3", "a", {}, {})};
  opened.put(third);
  CHECK(opened.find(0, "q1"));
  CHECK(opened.find(0, "q3"));
}

TEST_CASE("a name of SQLite's own is a file like any other, and what is no file is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  SweepStore(":memory:", kTables).close();
  std::filesystem::current_path(before);
  CHECK(std::filesystem::exists(folder.path() / ":memory:"));
  CHECK_THROWS_AS(SweepStore("", kTables), InputError);
  CHECK_THROWS_AS(SweepStore(folder.path(), kTables), InputError);
  CHECK_THROWS_AS(SweepStore("/dev/null", kTables), InputError);
}

TEST_CASE("two may write one file at once") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "results.db";
  SweepStore a(file, kTables), b(file, kTables);
  const std::vector<PointRow> one = {row(0, "q1", "a", std::int64_t{1}, {})},
                              two = {row(1, "q2", "a", std::int64_t{2}, {})};
  a.put(one);
  b.put(two);
  b.put(one);
  CHECK(a.find(0, "q2"));
  b.close();
  a.close();
  CHECK(rows(file, "SELECT * FROM cakes").size() == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
