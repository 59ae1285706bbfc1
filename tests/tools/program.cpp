#include "tests/tools/program.hpp"

namespace tracecast::test {

ProcessResult tracecast(Words arguments) {
  arguments.insert(arguments.begin(), TRACECAST_PROGRAM);
  return run_process(arguments, Seconds(30));
}

std::string line_of(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += ' ' + word;
  return line;
}

}  // namespace tracecast::test
