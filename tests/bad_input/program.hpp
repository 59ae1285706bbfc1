#pragma once
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace tracecast::test {

/// Does what `tracecast ARGUMENTS...` does, in a process of its own.
[[nodiscard]] ProcessResult run_tracecast(const std::vector<std::string>& arguments);

/// Starts the program itself, so that the memory that it takes is its own.
[[nodiscard]] ProcessResult run_tracecast_anew(const std::vector<std::string>& arguments);

/// Checks that tracecast refuses: exit code 2, one line on stderr, nothing on stdout.
void check_refuses(const std::vector<std::string>& arguments);

/// Checks that tracecast answers: exit code 0, an answer on stdout.
void check_reports(const std::vector<std::string>& arguments);

/// Checks that tracecast takes it in good order whatever the input: it answers (0, or 1: the answer
/// is no), or refuses in one line; in time, in memory, without a crash.
void check_survives(const std::vector<std::string>& arguments);

}  // namespace tracecast::test
