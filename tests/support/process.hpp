#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast::test {

/// Whether address sanitizer watches: its shadow memory takes terabytes of addresses.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRACECAST_SANITIZES_ADDRESSES
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TRACECAST_SANITIZES_ADDRESSES
#endif
#ifdef TRACECAST_SANITIZES_ADDRESSES
inline constexpr bool kSanitizesAddresses = true;
#else
inline constexpr bool kSanitizesAddresses = false;
#endif

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

/// Runs `program` in a copy of this process, to its exit code, and otherwise as run_process does.
/// What this process has read and kept is there already, which is most of what a short command
/// costs; `peak_bytes` counts it too.
[[nodiscard]] ProcessResult run_forked(const std::function<int()>& program,
                                       Seconds limit = Seconds(60));

/// Number of lines in `text`; a last line counts with or without its line break.
[[nodiscard]] int count_lines(std::string_view text);

}  // namespace tracecast::test
