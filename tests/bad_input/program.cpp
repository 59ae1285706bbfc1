#include "tests/bad_input/program.hpp"

#include <doctest/doctest.h>

#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

std::string describe(const ProcessResult& result) {
  return (result.timed_out ? "timed out, " : "") + std::string("exit code ") +
         std::to_string(result.exit_code) + ", signal " + std::to_string(result.signal) +
         "\nstdout: " + result.out.substr(0, 500) + "\nstderr: " + result.err.substr(0, 2000);
}

bool is_refusal(const ProcessResult& result) {
  return result.exit_code == 2 && result.out.empty() && count_lines(result.err) == 1 &&
         result.err.find(": ") != std::string::npos;
}

}  // namespace

ProcessResult run_tracecast(const std::vector<std::string>& arguments) {
  return tracecast(arguments);
}

ProcessResult run_tracecast_anew(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {TRACECAST_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_process(command);
}

void check_refuses(const std::vector<std::string>& arguments) {
  const ProcessResult result = run_tracecast(arguments);
  CAPTURE(describe(result));
  CHECK(is_refusal(result));
}

void check_reports(const std::vector<std::string>& arguments) {
  const ProcessResult result = run_tracecast(arguments);
  CAPTURE(describe(result));
  CHECK(result.exit_code == 0);
  CHECK_FALSE(result.out.empty());
}

void check_survives(const std::vector<std::string>& arguments) {
  const ProcessResult result = run_tracecast(arguments);
  CAPTURE(describe(result));
  const bool reported = result.exit_code == 0 || result.exit_code == 1;
  const bool in_good_order = reported ? !result.out.empty() : is_refusal(result);
  CHECK(in_good_order);
}

}  // namespace tracecast::test
