#include "tests/support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <utility>

// For what run_forked runs: as `become` sets them for other programs.
extern "C" const char* __asan_default_options() { return "exitcode=86:malloc_context_size=1"; }
extern "C" const char* __ubsan_default_options() { return "exitcode=86"; }

namespace tracecast::test {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close(read_end);
    close_write_end();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write_end() { close(std::exchange(write_end, -1)); }
};

/// In a new process: what it may take, and where it reads and writes.
void settle(const Pipe& out, const Pipe& err) {
  if (!kSanitizesAddresses) {
    const rlimit two_gib{rlim_t{2} << 30, rlim_t{2} << 30};
    setrlimit(RLIMIT_AS, &two_gib);
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out.write_end, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
}

[[noreturn]] void become(std::vector<char*>& arguments) {
  // A sanitizer's finding must not look like the program's own exit code 1. What a program that
  // ends has not given back is no finding (tests of libraries look for that), and of where memory
  // was taken one line is reported: a fifth of the time.
  setenv("ASAN_OPTIONS", "exitcode=86:detect_leaks=0:malloc_context_size=1", 1);
  setenv("UBSAN_OPTIONS", "exitcode=86", 1);
  execv(arguments[0], arguments.data());
  _exit(127);
}

/// What `child` does in a process of its own.
ProcessResult run_child(const std::function<void()>& child_does, Seconds limit) {
  Pipe out;
  Pipe err;
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    settle(out, err);
    child_does();
    _exit(127);
  }
  out.close_write_end();
  err.close_write_end();

  ProcessResult result;
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(limit.in_s());
  pollfd sources[] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}};
  std::string* const sinks[] = {&result.out, &result.err};
  int open_sources = 2;
  while (open_sources > 0) {
    const std::chrono::duration<double, std::milli> left = deadline - Clock::now();
    const int ready = poll(sources, 2, static_cast<int>(std::max(0.0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      result.timed_out = true;
      kill(child, SIGKILL);
      break;
    }
    for (int i = 0; i < 2; ++i) {
      if (!sources[i].revents) continue;
      char piece[65536];
      const ssize_t size = read(sources[i].fd, piece, sizeof piece);
      if (size > 0) {
        sinks[i]->append(piece, static_cast<std::size_t>(size));
      } else {
        sources[i].fd = -1;
        --open_sources;
      }
    }
  }
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  result.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, Seconds limit) {
  std::vector<std::string> owned = command;
  std::vector<char*> arguments;
  for (std::string& word : owned) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ProcessResult result = run_child([&] { become(arguments); }, limit);
  if (result.exit_code == 127) throw std::runtime_error("cannot start " + command[0]);
  return result;
}

ProcessResult run_forked(const std::function<int()>& program, Seconds limit) {
  return run_child(
      [&] {
        const int exit_code = program();
        std::cout.flush();
        std::fflush(nullptr);
        _exit(exit_code);
      },
      limit);
}

int count_lines(std::string_view text) {
  const auto breaks = std::count(text.begin(), text.end(), '\n');
  return static_cast<int>(breaks) + (!text.empty() && text.back() != '\n' ? 1 : 0);
}

}  // namespace tracecast::test
