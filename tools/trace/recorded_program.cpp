#include "tools/trace/recorded_program.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

volatile pid_t child = 0;

/// From another process: ours to pass on. From the terminal the program has it as well.
void pass_on(int number, siginfo_t* info, void*) {
  if (info->si_code <= 0 && child > 0) ::kill(child, number);
}

/// While it lives these signals do not end us. They wait until `release`, so that one that comes
/// before the program's id is known is not lost.
class SignalGuard {
 public:
  SignalGuard() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int number : kPassedOn) ::sigaddset(&held, number);
    ::sigprocmask(SIG_BLOCK, &held, &mask_);
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (std::size_t i = 0; i < kPassedOn.size(); ++i)
      ::sigaction(kPassedOn[i], &action, &before_[i]);
  }
  ~SignalGuard() {
    release();
    for (std::size_t i = 0; i < kPassedOn.size(); ++i)
      ::sigaction(kPassedOn[i], &before_[i], nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  void release() const { ::sigprocmask(SIG_SETMASK, &mask_, nullptr); }
  /// The mask that the program starts with: ours as it was.
  [[nodiscard]] const sigset_t& mask() const { return mask_; }

 private:
  sigset_t mask_{};
  std::array<struct sigaction, kPassedOn.size()> before_{};
};

/// Ours, with `added` in place of variables of the same names.
std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> merged;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view line = *at;
    const std::string_view name = line.substr(0, line.find('='));
    bool is_replaced = false;
    for (const auto& [other, value] : added) is_replaced |= name == other;
    if (!is_replaced) merged.emplace_back(line);
  }
  for (const auto& [name, value] : added) merged.push_back(name + '=' + value);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> to;
  for (std::string& text : texts) to.push_back(text.data());
  to.push_back(nullptr);
  return to;
}

/// Starts `command`; 0 or an error number.
int spawn(std::vector<std::string>& command, std::vector<std::string>& environment,
          const sigset_t& mask, pid_t& pid) {
  posix_spawnattr_t attributes;
  if (const int error = ::posix_spawnattr_init(&attributes); error != 0) return error;
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  // Handlers do not survive in the program: it starts with the defaults.
  const int error = ::posix_spawnp(&pid, command.front().c_str(), nullptr, &attributes,
                                   pointers(command).data(), pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

int run_program(const std::vector<std::string>& command,
                const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> words = command, variables = merged_environment(environment);
  const SignalGuard guard;
  pid_t pid = 0;
  if (const int error = spawn(words, variables, guard.mask(), pid); error != 0) {
    throw InputError("the program " + command.front(), std::strerror(error),
                     "a program that can be started");
  }
  child = pid;
  guard.release();
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tracecast
