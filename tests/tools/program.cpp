#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

/// Nothing that is tested takes a tenth of it, but under sanitizers on a busy machine.
constexpr Seconds kHangs(120);

}  // namespace

ProcessResult tracecast(Words arguments) {
  arguments.insert(arguments.begin(), TRACECAST_PROGRAM);
  return run_process(arguments, kHangs);
}

std::string line_of(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += ' ' + word;
  return line;
}

}  // namespace tracecast::test
