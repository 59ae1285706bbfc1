#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace tracecast {

/// Help pages at 80 columns: names on the left, words wrapped beside them, below them where a name
/// is long.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* subcommand) const override;
};

/// CLI11's complaint in our words: what was found, what was expected.
struct Complaint {
  std::string found, expected;
};
/// `place`: the command as it was typed, "tracecast study run".
[[nodiscard]] Complaint reword(const CLI::ParseError& error, const std::string& place);

}  // namespace tracecast
