#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast {

/// The subcommand that was being parsed, or the program itself.
[[nodiscard]] const CLI::App& active_subcommand(const CLI::App& app);
/// "tracecast study run".
[[nodiscard]] std::string command_of(const CLI::App& app);
/// Names of its subcommands.
[[nodiscard]] std::vector<std::string> subcommands_of(const CLI::App& app);
/// CLI11's complaint as one line of ours: where, what was found, what was expected.
[[nodiscard]] InputError explain(const CLI::ParseError& error, const CLI::App& app);

/// "tracecast", a blank and the version, a line.
[[nodiscard]] std::string version_text();
/// Every subcommand understands `--version`; their pages do not list it.
void add_version_flag(CLI::App& app);

/// Refuses a flag whose value is empty, as a variable that is not set leaves it: what it asks for
/// would not be done. Throws InputError.
void refuse_empty_values(const std::vector<std::string>& words);

/// Parses a command's words, "predict" first. Throws InputError with the line that the command
/// would print.
void parse_words(CLI::App& app, std::vector<std::string> words);

}  // namespace tracecast
