#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast::test {

/// How a program ended and what it said.
struct ProcessResult {
  int exit_code = -1;      ///< -1 when it did not exit by itself
  int signal = 0;          ///< that ended it, or 0
  bool timed_out = false;  ///< it was killed after the limit
  std::string out;
  std::string err;
  std::uint64_t peak_bytes = 0;  ///< of memory that was resident at once
};

/// Runs a program to its end, without standard input. Where memory can be limited (not under the
/// address sanitizer, which reserves terabytes) it gets 2 GiB of address space, so that an
/// allocation without bound shows. Throws std::runtime_error when the program cannot be started.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& command,
                                        Seconds limit = Seconds(60));

/// Number of lines in `text`; a last line counts with or without its line break.
[[nodiscard]] int count_lines(std::string_view text);

}  // namespace tracecast::test
