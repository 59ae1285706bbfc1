#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace tracecast {

/// The page of a subcommand, or of the program with all its subcommands, as `man` shows it
/// (man(7)): from what --help is made of. `command`: "tracecast predict".
[[nodiscard]] std::string man_page(const CLI::App& app, const std::string& command);

/// A script that completes subcommands, flags and the values that flags take, for bash, zsh or
/// fish: from what --help is made of; GPUs, networks and machines are asked of the program.
/// `program`: with all its subcommands. Needs one of the three shells.
[[nodiscard]] std::string completion_script(const CLI::App& program, const std::string& shell);

}  // namespace tracecast
