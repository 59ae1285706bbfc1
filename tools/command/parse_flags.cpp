#include "tools/command/parse_flags.hpp"

#include <algorithm>

#include "sim/base/text.hpp"
#include "tools/command/help.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

bool has_subcommands(const CLI::App& app) {
  return !app.get_subcommands([](const CLI::App*) { return true; }).empty();
}

}  // namespace

const CLI::App& active_subcommand(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : active_subcommand(*chosen.front());
}

std::string command_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? "tracecast" : command_of(*parent) + ' ' + app.get_name();
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    words.push_back(subcommand->get_name());
  }
  return words;
}

InputError explain(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App& where = active_subcommand(app);
  const std::string place = command_of(where), see = " (see " + place + " --help)";
  const auto extra = app.remaining(true);
  if (!extra.empty()) {
    const std::string word = extra.front().substr(0, extra.front().find('='));
    if (word.starts_with("-") || has_subcommands(where)) {
      return {
          place, "\"" + word + "\"",
          describe_choices(word, word.starts_with("-") ? flags_of(where) : subcommands_of(where)) +
              see};
    }
    return {place, "\"" + word + "\" too many", "no further argument"};
  }
  const Complaint complaint = reword(error, place);
  return {place, complaint.found, complaint.expected};
}

void refuse_empty_values(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    const bool has_none = word.starts_with("--") && equals + 1 == word.size() && equals > 2;
    const bool is_none = word.empty() && i > 0 && words[i - 1].starts_with("--") &&
                         words[i - 1].find('=') == std::string::npos;
    if (!has_none && !is_none) continue;
    throw InputError(has_none ? word.substr(0, equals) : words[i - 1], "an empty value",
                     "a value, or no such flag");
  }
}

std::string version_text() { return std::string("tracecast ") + kVersion + "\n"; }

void add_version_flag(CLI::App& app) {
  CLI::Option* flag = app.set_version_flag("--version", version_text(), "Print the version");
  if (app.get_parent() != nullptr) flag->group("");
  for (CLI::App* subcommand : app.get_subcommands([](CLI::App*) { return true; }))
    add_version_flag(*subcommand);
}

void parse_words(CLI::App& app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw explain(error, app);
  }
}

}  // namespace tracecast
