#include "sim/base/new_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMost = 1 << 24;

int count_entries(const fs::path& folder) {
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++entries;
  return entries;
}

void write(const fs::path& path, std::string_view content) {
  NewFile file(path);
  file.write(content);
  file.put_in_place();
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

TEST_SUITE_BEGIN("sim/base/new_file");

TEST_CASE("nobody sees half a file, and one that is given up leaves nothing") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  write(path, "old");
  {
    NewFile file(path);
    file.write("half");
    CHECK(read_file(path, kMost) == "old");
  }
  CHECK(read_file(path, kMost) == "old");
  CHECK(count_entries(folder.path()) == 1);
  NewFile file(path);
  file.write("n");
  file.write("ew");
  CHECK(file.size() == 3);
  file.put_in_place();
  CHECK(read_file(path, kMost) == "new");
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("of two processes that write one file, one wins whole, every time") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    pid_t writers[2];
    for (int w = 0; w < 2; ++w) {
      writers[w] = fork();
      REQUIRE(writers[w] >= 0);
      if (writers[w] != 0) continue;
      NewFile file(path);
      // The pieces of the two come in turn.
      for (int piece = 0; piece < 64; ++piece) file.write(std::string(512, w == 0 ? 'a' : 'b'));
      file.put_in_place();
      _exit(0);
    }
    for (const pid_t writer : writers) {
      int status = 0;
      waitpid(writer, &status, 0);
      REQUIRE(status == 0);
    }
    const std::string content = read_file(path, kMost);
    REQUIRE(content == std::string(std::size_t{64} * 512, content.front()));
    REQUIRE(count_entries(folder.path()) == 1);
  }
}

TEST_CASE("links that were planted under the names of partial files are not followed") {
  const test::TemporaryFolder folder;
  write(folder.path() / "victim", "precious");
  fs::create_symlink(folder.path() / "victim", folder.path() / "out.partial");
  write(folder.path() / "out", "content");
  CHECK(read_file(folder.path() / "victim", kMost) == "precious");
  CHECK(fs::is_symlink(folder.path() / "out.partial"));
}

TEST_CASE(
    "a link in the place of the file is followed, as Unix does: what it leads to is written, and "
    "it stays") {
  const test::TemporaryFolder folder;
  const fs::path target = folder.path() / "target", link = folder.path() / "link",
                 chain = folder.path() / "chain";
  fs::create_symlink("target", link);
  fs::create_symlink(link, chain);
  for (const char* content : {"made", "changed"}) {
    write(chain, content);
    CHECK(read_file(target, kMost) == content);
    CHECK(fs::is_symlink(link));
    CHECK(fs::is_symlink(chain));
    CHECK(fs::is_regular_file(fs::symlink_status(target)));
  }
  // A circle leads nowhere.
  fs::create_symlink(folder.path() / "b", folder.path() / "a");
  fs::create_symlink(folder.path() / "a", folder.path() / "b");
  CHECK_THROWS_AS(write(folder.path() / "a", "content"), InputError);
}

TEST_CASE("a writer that is killed leaves the old file and nothing beside it") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  write(path, "old");
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    CAPTURE(signal);
    const pid_t writer = fork();
    REQUIRE(writer >= 0);
    if (writer == 0) {
      std::signal(signal, SIG_DFL);
      NewFile file(path);
      file.write("half");
      raise(signal);
      _exit(0);
    }
    int status = 0;
    waitpid(writer, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(read_file(path, kMost) == "old");
  }
  // Not so on file systems that cannot hold a file without a name.
  const int nameless = ::open(folder.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (nameless < 0) return;
  ::close(nameless);
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("a full disk is reported with its reason and leaves the old file") {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "file";
  write(path, "old");
  const pid_t writer = fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit little{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &little);
    try {
      write(path, std::string(5000, 'x'));
    } catch (const InputError& error) {
      _exit(std::string(error.what()).find("cannot be written: ") != std::string::npos ? 7 : 8);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(writer, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(read_file(path, kMost) == "old");
  CHECK(count_entries(folder.path()) == 1);
}

TEST_CASE("a new file has the mode that umask leaves, an old one keeps its own") {
  const test::TemporaryFolder folder;
  const mode_t before = umask(027);
  write(folder.path() / "new", "x");
  CHECK(mode_of(folder.path() / "new") == 0640);
  for (const mode_t mode : {0600u, 0666u, 0755u}) {
    ::chmod((folder.path() / "new").c_str(), mode);
    write(folder.path() / "new", "y");
    CHECK(mode_of(folder.path() / "new") == mode);
  }
  umask(before);
}

TEST_CASE("a pipe is written to as it stands, and a reader that leaves is no error") {
  const test::TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  NewFile file(pipe);
  file.write("through");
  char got[16] = {};
  CHECK(::read(reader, got, sizeof got) == 7);
  CHECK(std::string(got) == "through");
  CHECK(file.size() == 7);
  ::close(reader);
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  CHECK_NOTHROW(file.write("nobody reads this"));
  CHECK_NOTHROW(file.put_in_place());
  std::signal(SIGPIPE, before);
  CHECK(fs::is_fifo(pipe));
}

TEST_CASE("a file that may not be written is not replaced either") {
  if (::geteuid() == 0) return;  // root may
  const test::TemporaryFolder folder;
  write(folder.path() / "file", "old");
  ::chmod((folder.path() / "file").c_str(), 0444);
  CHECK_THROWS_AS(write(folder.path() / "file", "new"), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
