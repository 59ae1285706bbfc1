#include "tools/command/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tools/command/version.hpp"

namespace tracecast {
namespace {

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Flags that the help page shows, and positionals.
std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  std::vector<const CLI::Option*> shown;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) shown.push_back(option);
  }
  return shown;
}

/// Text as roff takes it: no command at the begin of a line, no escape, hyphens that can be
/// searched for.
std::string roff(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if ((c == '.' || c == '\'') && (safe.empty() || safe.back() == '\n')) {
      safe += "\\&";
      safe += c;
    } else {
      safe += c;
    }
  }
  return safe;
}

/// "--format TEXT", "-h, --help".
std::string words_of(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ", --") + name;
  if (text.empty()) return option.get_single_name();
  std::string type = option.get_type_name();
  type.erase(std::min(type.find(':'), type.size()));
  if (option.get_items_expected_max() > 0 && !type.empty()) text += " " + type;
  return text;
}

void add_options(std::string& page, const CLI::App& app) {
  for (const CLI::Option* option : shown_options(app)) {
    page += ".TP\n.B " + roff(words_of(*option)) + "\n" + roff(option->get_description()) + "\n";
  }
}

void add_subcommand(std::string& page, const CLI::App& subcommand, const std::string& command) {
  page += ".SS " + roff(command) + "\n" + roff(subcommand.get_description()) + ".\n";
  add_options(page, subcommand);
  if (!subcommand.get_footer().empty()) page += ".PP\n" + roff(subcommand.get_footer()) + "\n";
  for (const CLI::App* inner : subcommands_of(subcommand))
    add_subcommand(page, *inner, command + ' ' + inner->get_name());
}

/// The values in braces that a flag's check names: "text,json,csv".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find(":{"), end = type.find('}', begin);
  std::vector<std::string> words;
  if (begin == std::string::npos || end == std::string::npos) return words;
  std::string word;
  for (std::size_t i = begin + 2; i <= end; ++i) {
    if (type[i] == ',' || i == end) {
      words.push_back(word);
      word.clear();
    } else {
      word += type[i];
    }
  }
  return words;
}

/// What a subcommand's words can be completed to.
struct Completion {
  std::string path;  ///< "predict", "trace summary"; empty: the program
  std::vector<std::string> subcommands, flags;
  std::vector<std::pair<std::string, std::string>> values;  ///< of a flag, joined by blanks
};

void collect(const CLI::App& app, const std::string& path, std::vector<Completion>& all) {
  Completion one{.path = path, .subcommands = {}, .flags = {}, .values = {}};
  for (const CLI::App* subcommand : subcommands_of(app))
    one.subcommands.push_back(subcommand->get_name());
  for (const CLI::Option* option : shown_options(app)) {
    for (const std::string& name : option->get_lnames()) {
      one.flags.push_back("--" + name);
      const std::vector<std::string> choices = choices_of(*option);
      if (!choices.empty()) {
        one.values.emplace_back("--" + name, fmt::format("{}", fmt::join(choices, " ")));
      }
    }
  }
  all.push_back(std::move(one));
  for (const CLI::App* subcommand : subcommands_of(app)) {
    collect(*subcommand,
            path.empty() ? subcommand->get_name() : path + ' ' + subcommand->get_name(), all);
  }
}

/// Shell code that both bash and zsh (through bashcompinit) run.
std::string bash_script(const std::vector<Completion>& all) {
  std::string text =
      "_tracecast() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} subcommand= i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    [[ ${COMP_WORDS[i]} == -* ]] && break\n"
      "    case \"${subcommand:+$subcommand }${COMP_WORDS[i]}\" in\n"
      "      ";
  std::vector<std::string> paths;
  for (const Completion& one : all) {
    if (!one.path.empty()) paths.push_back('"' + one.path + '"');
  }
  text += fmt::format(
      "{}) subcommand=\"${{subcommand:+$subcommand }}${{COMP_WORDS[i]}}\" ;;\n      *) break ;;\n",
      fmt::join(paths, "|"));
  text +=
      "    esac\n"
      "  done\n"
      "  local words= files=\n"
      "  case \"$subcommand $before\" in\n";
  for (const Completion& one : all) {
    for (const auto& [flag, values] : one.values)
      text += fmt::format("    \"{} {}\") words=\"{}\" ;;\n", one.path, flag, values);
  }
  text +=
      "    *\" --gpu\") words=$(tracecast gpus --format csv 2>/dev/null | cut -d, -f1 | tail -n "
      "+2) ;;\n"
      "    *\" --machine\") words=$(tracecast hardware machines --format csv 2>/dev/null | cut -d, "
      "-f1 | "
      "tail -n +2) ;;\n"
      "    *\" --report\"|*\" --trace\"|*\" --profile\"|*\" --cluster\"|*\" --fleet\") files=yes "
      ";;\n"
      "    *) case \"$subcommand\" in\n";
  for (const Completion& one : all) {
    std::vector<std::string> words = one.subcommands;
    words.insert(words.end(), one.flags.begin(), one.flags.end());
    const bool takes_network = one.path == "predict" || one.path == "networks";
    text += fmt::format("      \"{}\") words=\"{}\"{} ;;\n", one.path, fmt::join(words, " "),
                        takes_network
                            ? "; [[ $word != -* ]] && words=$(tracecast networks --format csv "
                              "2>/dev/null | cut -d, -f1 | tail -n +2)"
                            : "");
  }
  text +=
      "    esac\n"
      "    [[ -n $subcommand && $word != -* ]] && files=yes ;;\n"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  [[ -n $files ]] && COMPREPLY+=($(compgen -f -- \"$word\"))\n"
      "  return 0\n"
      "}\n"
      "complete -o filenames -F _tracecast tracecast\n";
  return text;
}

/// A word in single quotes of fish.
std::string fish_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') word += '\\';
    word += c == '\n' ? ' ' : c;
  }
  return word + "'";
}

void fish_lines(std::string& text, const CLI::App& app, const std::string& condition) {
  for (const CLI::App* subcommand : subcommands_of(app)) {
    text += fmt::format("complete -c tracecast -f -n {} -a {} -d {}\n", fish_word(condition),
                        subcommand->get_name(), fish_word(subcommand->get_description()));
  }
  for (const CLI::Option* option : shown_options(app)) {
    for (const std::string& name : option->get_lnames()) {
      const std::vector<std::string> choices = choices_of(*option);
      std::string values =
          choices.empty() ? "" : fmt::format(" -x -a '{}'", fmt::join(choices, " "));
      if (name == "gpu") values = " -x -a '(tracecast gpus --format csv | string split -f1 ,)'";
      if (values.empty() && option->get_items_expected_max() > 0) values = " -r";
      text += fmt::format("complete -c tracecast -n {} -l {}{} -d {}\n", fish_word(condition), name,
                          values, fish_word(option->get_description()));
    }
  }
  for (const CLI::App* subcommand : subcommands_of(app)) {
    fish_lines(text, *subcommand, "__fish_seen_subcommand_from " + subcommand->get_name());
  }
}

}  // namespace

std::string man_page(const CLI::App& app, const std::string& command) {
  std::string name = command;
  std::replace(name.begin(), name.end(), ' ', '-');
  std::string page =
      fmt::format(".TH {} 1 \"\" \"tracecast {}\" \"tracecast manual\"\n", roff(name), kVersion);
  page += ".SH NAME\n" + roff(name) + " \\- " + roff(app.get_description()) + "\n";
  page += ".SH SYNOPSIS\n.B " + roff(command) + "\n";
  page += subcommands_of(app).empty() ? ".I [OPTIONS]" : ".I VERB [OPTIONS]";
  page += "\n.SH OPTIONS\n";
  add_options(page, app);
  if (!subcommands_of(app).empty()) page += ".SH VERBS\n";
  for (const CLI::App* subcommand : subcommands_of(app))
    add_subcommand(page, *subcommand, command + ' ' + subcommand->get_name());
  if (!app.get_footer().empty()) page += ".SH NOTES\n" + roff(app.get_footer()) + "\n";
  return page;
}

std::string completion_script(const CLI::App& program, const std::string& shell) {
  if (shell == "fish") {
    std::string text = "complete -c tracecast -e\n";
    fish_lines(text, program, "__fish_use_subcommand");
    return text;
  }
  std::vector<Completion> all;
  collect(program, "", all);
  const std::string body = bash_script(all);
  if (shell == "bash") return body;
  return "#compdef tracecast\nautoload -U +X bashcompinit && bashcompinit\n" + body;
}

}  // namespace tracecast
