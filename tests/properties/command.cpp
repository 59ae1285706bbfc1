#include "tests/properties/command.hpp"

#include <algorithm>

namespace tracecast::test {
namespace {

template <class Flags>
auto find_in(Flags& flags, std::string_view flag) {
  return std::find_if(flags.begin(), flags.end(),
                      [&](const auto& given) { return given.first == flag; });
}

std::string quoted(const std::string& word) {
  const bool is_plain = !word.empty() && word.find_first_of(" |\"$;()\n\\") == std::string::npos;
  return is_plain ? word : '\'' + word + '\'';
}

}  // namespace

bool Command::has(std::string_view flag) const { return find_in(flags, flag) != flags.end(); }

std::string Command::value(std::string_view flag) const {
  const auto given = find_in(flags, flag);
  return given == flags.end() ? std::string() : given->second;
}

Command Command::with(std::string_view flag, std::string_view value) const {
  Command changed = *this;
  const auto given = find_in(changed.flags, flag);
  if (given != changed.flags.end()) {
    given->second = value;
  } else {
    changed.add(std::string(flag), std::string(value));
  }
  return changed;
}

Command Command::with_setting(std::string setting) const {
  Command changed = *this;
  changed.sets.push_back(std::move(setting));
  return changed;
}

std::vector<std::string> Command::words() const {
  std::vector<std::string> words{subject};
  for (const auto& [flag, value] : flags) {
    words.push_back(flag);
    if (!value.empty()) words.push_back(value);
  }
  return words;
}

std::string Command::text() const {
  std::string line;
  for (const auto& [name, holds] : files) line += "printf '%s' '" + holds + "' > " + name + "; ";
  line += "tracecast " + subcommand;
  for (const std::string& word : words()) line += ' ' + quoted(word);
  for (const std::string& setting : sets) line += " --set " + setting;
  return line;
}

}  // namespace tracecast::test
