#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tracecast::test {

using Arguments = std::vector<std::string>;

/// A kind of answer that `predict` gives, with the command that asks for it.
struct Mode {
  const char* name;
  Arguments command;  ///< after `predict`; FOLDER stands for that of the test's files
};
[[nodiscard]] const std::vector<Mode>& predict_modes();

/// A flag with a value that differs from its default.
struct FlagValue {
  const char* flag;
  Arguments value{};      ///< empty: it takes none
  Arguments beside{};     ///< given with and without the flag: what its subject needs
  const char* mode = "";  ///< only in modes whose name begins so; rows for longer prefixes go first
  const char* spelled = "";  ///< on the command line, where not as the help names it first
};
/// Every flag of `predict`, some with a value of their own in some modes.
[[nodiscard]] const std::vector<FlagValue>& predict_flag_values();

/// A flag that changes no figure in a mode, and why that is right.
struct Excuse {
  const char* mode;  ///< beginning of its name
  const char* flag;
  const char* reason;
};
[[nodiscard]] const std::vector<Excuse>& predict_excuses();

/// What an answer says beyond its inputs: of JSON and CSV without the keys and columns that repeat
/// flags, of text without the lines that do.
[[nodiscard]] std::string figures_of(const std::string& report);

}  // namespace tracecast::test
