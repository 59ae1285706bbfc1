#include "sim/store/store.hpp"

#include <doctest/doctest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::store {
namespace {

TEST_SUITE_BEGIN("sim/store");

std::string value_of(int i) {
  return std::string(static_cast<std::size_t>(100 + i), 'v') + std::to_string(i);
}

TEST_CASE("what was put is found, by another store on the same file, too; the first value stays") {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "results.sqlite";
  Store store(file);
  CHECK_FALSE(store.find("a"));
  store.put("a", std::string("bytes\0of any kind", 17));
  store.put("a", "later");
  CHECK(Store(file).find("a") == std::string("bytes\0of any kind", 17));
  CHECK(store.size() == 1);
}

TEST_CASE("a file that is no store is refused") {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "text", std::string(5000, 'x'));
  CHECK_THROWS_AS(Store(folder.path() / "text"), InputError);
  CHECK_THROWS_AS(Store(folder.path() / "nowhere" / "file"), InputError);
}

TEST_CASE("a store with a trigger is refused") {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "results.sqlite";
  { const Store made(file); }
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  REQUIRE(
      sqlite3_exec(database,
                   "CREATE TRIGGER thief AFTER INSERT ON results BEGIN DELETE FROM results; END",
                   nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  CHECK_THROWS_AS(Store{file}, InputError);
}

TEST_CASE(
    "a writer that is killed at any moment leaves whole values, and two writers do not disturb "
    "each other") {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "results.sqlite";
  { const Store made(file); }
  Random random(7);
  for (int round = 0; round < 10; ++round) {
    std::vector<pid_t> writers;
    for (int w = 0; w < 2; ++w) {
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        Store store(file);
        for (int i = 0;; ++i) store.put("k" + std::to_string(i % 5000), value_of(i % 5000));
      }
      writers.push_back(child);
    }
    usleep(static_cast<useconds_t>(2000 + random.below(20000)));
    for (const pid_t child : writers) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    const Store store(file);
    std::size_t found = 0;
    for (int i = 0; i < 5000; ++i) {
      const auto value = store.find("k" + std::to_string(i));
      if (!value) continue;
      ++found;
      REQUIRE(*value == value_of(i));
    }
    CHECK(found == store.size());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::store
