#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracecast::test {

/// A command line of tracecast, of which one thing after the other can be changed.
struct Command {
  std::string subcommand;
  std::string subject;                         ///< network, or the name of one of `files`
  std::map<std::string, std::string> files{};  ///< that words name, and what they hold
  std::vector<std::pair<std::string, std::string>> flags{};  ///< value empty: the flag takes none
  std::vector<std::string> sets{};                           ///< "gpu.compute=2x"

  /// The flag's value; empty: it is not given, or takes none.
  [[nodiscard]] std::string value(std::string_view flag) const;
  [[nodiscard]] bool has(std::string_view flag) const;
  void add(std::string flag, std::string value = {}) {
    flags.emplace_back(std::move(flag), std::move(value));
  }

  /// The same with the flag at that value, given before or not.
  [[nodiscard]] Command with(std::string_view flag, std::string_view value) const;
  [[nodiscard]] Command with_setting(std::string setting) const;

  /// Subject and flags without the subcommand and without --set.
  [[nodiscard]] std::vector<std::string> words() const;
  /// A line for a shell, which makes the files first.
  [[nodiscard]] std::string text() const;
};

}  // namespace tracecast::test
