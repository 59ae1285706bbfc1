#pragma once
#include <string>
#include <vector>

namespace tracecast {

/// Does what `tracecast WORDS...` does, and returns its exit code. Throws InputError with the line
/// that the program would print.
int run_command(std::vector<std::string> words);

}  // namespace tracecast
