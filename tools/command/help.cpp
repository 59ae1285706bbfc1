#include "tools/command/help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "sim/base/text.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kColumns = 80, kTextColumn = 28;

std::string entry(const std::string& name, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string line = "  " + name;
  if (text.empty()) return line + '\n';
  if (line.size() + 2 > kTextColumn) {
    line += '\n' + std::string(kTextColumn, ' ');
  } else {
    line.resize(kTextColumn, ' ');
  }
  for (const char c : wrap(text, kColumns - kTextColumn, 0)) {
    line += c;
    if (c == '\n') line.append(kTextColumn, ' ');
  }
  return line + '\n';
}

/// "--format" of "--format: xml not in {text,json,csv}", "network" of "network is required".
std::string_view before(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(0, at);
}

std::string_view after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + mark.size());
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  // What may stand in braces (choices, the value of a --no-flag) the description says as well.
  const auto without_braces = [](std::string text, const std::string& begin) {
    const std::size_t from = text.find(begin), to = text.find('}', from);
    if (to != std::string::npos) text.erase(from, to + 1 - from);
    return text;
  };
  return entry(without_braces(make_option_name(option, is_positional), "{") +
                   without_braces(make_option_opts(option), ":{"),
               make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* subcommand) const {
  return entry(subcommand->get_name(), subcommand->get_description());
}

Complaint reword(const CLI::ParseError& error, const std::string& place) {
  const std::string text = error.what();
  const std::string see = " (see " + place + " --help)";
  if (const auto name = before(text, " is required"); !name.empty()) {
    const bool is_subcommand = name.starts_with("A ");
    return {"no " + std::string(is_subcommand ? name.substr(2) : name), "one" + see};
  }
  if (const auto what = after(text, "Could not convert: "); !what.empty()) {
    const std::size_t equals = what.find(" = ");
    const bool is_number = equals != what.npos && parse_double(what.substr(equals + 3)).has_value();
    return {std::string(what), (is_number ? "a whole number, in digits" : "a number") + see};
  }
  if (const auto choice = after(text, " not in {"); !choice.empty()) {
    const auto value = before(text, " not in {");
    return {std::string(value), "one of " + std::string(choice.substr(0, choice.find('}')))};
  }
  if (const auto range = after(text, " not in range "); !range.empty()) {
    std::string limits(range);
    constexpr std::string_view kZeros = ".000000";
    for (std::size_t at; (at = limits.find(kZeros)) != std::string::npos;)
      limits.erase(at, kZeros.size());
    return {std::string(before(text, " not in range ")), limits};
  }
  if (const auto other = after(text, " excludes "); !other.empty()) {
    return {fmt::format("{} beside {}", before(text, " excludes "), other), "one of the two"};
  }
  if (text.find(" required but received ") != std::string::npos) {
    return {std::string(before(text, ":")) + " more than once", "it once"};
  }
  if (text.find(" required ") != std::string::npos && text.ends_with(" missing")) {
    return {std::string(before(text, ":")) + " without its value", "a value" + see};
  }
  return {text, "what " + place + " --help says"};
}

}  // namespace tracecast
