#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tracecast {

/// Runs `command` (found as the shell finds it) with our standard input, output and error and
/// further variables in its environment, and waits for it. Ctrl-C reaches it as the terminal sends
/// it; a signal sent to us alone is passed on; we live on. Its exit code, or 128 and the number of
/// the signal that ended it. Throws InputError when it cannot be started.
[[nodiscard]] int run_program(const std::vector<std::string>& command,
                              const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace tracecast
