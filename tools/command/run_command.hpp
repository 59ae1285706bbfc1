#pragma once
#include <string>
#include <vector>

namespace tracecast {

/// Does what `tracecast WORDS...` does, and returns its exit code. Throws InputError with the line
/// that the program would print.
int run_command(std::vector<std::string> words);

/// Does what the program does with these words: run_command, and an error is said in one line on
/// stderr. Returns the exit code, whatever happens.
int run_program(std::vector<std::string> words) noexcept;

}  // namespace tracecast
