#include "sim/base/file.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "sim/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMost = 1 << 20;

TEST_SUITE_BEGIN("sim/base/file");

TEST_CASE("what was written is what is read, zero bytes and all") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  for (const std::string& content :
       {std::string(), std::string("a\0b\r\n\xff", 6), std::string(70'000, 'x')}) {
    write_file(path, content);
    CHECK(read_file(path, kMost) == content);
  }
}

TEST_CASE("a file may be as large as the limit and not a byte larger") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  write_file(path, "12345678");
  CHECK(read_file(path, 8) == "12345678");
  CHECK_THROWS_AS((void)read_file(path, 7), InputError);
}

TEST_CASE("what is no readable file is an input error, not a wait or a crash") {
  const test::TemporaryFolder folder;
  CHECK_THROWS_AS((void)read_file(folder.path() / "absent", kMost), InputError);
  CHECK_THROWS_AS((void)read_file(folder.path(), kMost), InputError);
  CHECK_THROWS_AS((void)read_file("/dev/zero", kMost), InputError);
  CHECK_THROWS_AS((void)read_file("", kMost), InputError);
}

TEST_CASE("a write that fails leaves the old file and nothing beside it") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "report.json";
  write_file(path, "old");
  // A folder in the place of the file keeps even root from writing it.
  fs::create_directory(folder.path() / "folder");
  CHECK_THROWS_AS(write_file(folder.path() / "folder", "new"), InputError);
  CHECK(fs::is_directory(folder.path() / "folder"));
  CHECK(read_file(path, kMost) == "old");

  CHECK_THROWS_AS(write_file(folder.path() / "absent" / "file", "new"), InputError);
  CHECK_FALSE(fs::exists(folder.path() / "absent"));
}

TEST_CASE("a write that succeeds leaves nothing beside the file") {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "file", "one");
  write_file(folder.path() / "file", "two");
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++entries;
  CHECK(entries == 1);
}

TEST_CASE("a link stays a link, and a device stays a device") {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "target", "old");
  fs::create_symlink(folder.path() / "target", folder.path() / "link");
  write_file(folder.path() / "link", "new");
  CHECK(fs::is_symlink(folder.path() / "link"));
  CHECK(read_file(folder.path() / "target", kMost) == "new");

  write_file("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
  if (fs::exists("/dev/full")) CHECK_THROWS_AS(write_file("/dev/full", "no room"), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
