#include "sim/store/sweep_store.hpp"

#include <doctest/doctest.h>

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
      0, point, question, state, "1", "answered", "hash", "[]", {eggs, weight, std::monostate()}};
}

std::vector<std::vector<Value>> rows(const std::filesystem::path& file, const std::string& sql) {
  std::vector<std::vector<Value>> found;
  store::query(
      file, sql, [](const auto&) {},
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
