#include "tests/tools/program.hpp"

#include "tools/command/captured_output.hpp"
#include "tools/command/run_command.hpp"

namespace tracecast::test {
namespace {

/// Nothing that is tested takes a tenth of it, but under sanitizers on a busy machine.
constexpr Seconds kHangs(120);

}  // namespace

ProcessResult tracecast(Words arguments) {
  // Once, so that what every command reads first is there already.
  [[maybe_unused]] static const int ready = [] {
    CapturedOutput unheard;
    return run_command({"predict", "alexnet", "--gpu", "t4"});
  }();
  return run_forked([&] { return run_program(arguments); }, kHangs);
}

std::string line_of(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += ' ' + word;
  return line;
}

}  // namespace tracecast::test
