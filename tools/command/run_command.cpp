#include "tools/command/run_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/command/help.hpp"
#include "tools/command/manual.hpp"
#include "tools/command/output.hpp"
#include "tools/command/parse_flags.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

/// The subcommand's own page, whichever subcommands were parsed.
std::string help_of(const CLI::App& subcommand) {
  return subcommand.get_formatter()->make_help(&subcommand, command_of(subcommand),
                                               CLI::AppFormatMode::Normal);
}

/// `tracecast help trace replay`: the page of the subcommand that the words name. Throws
/// InputError.
void add_help_command(CLI::App& app, int&) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* subcommand =
      app.add_subcommand("help", "Show the page of a subcommand, as its --help does");
  subcommand->add_option("subcommand", *words, "Subcommand, such as predict or trace replay")
      ->type_name("SUBCOMMAND");
  auto as_man = std::make_shared<bool>(false);
  subcommand->add_flag("--man", *as_man,
                       "The page for man: tracecast help --man predict | man -l -");
  subcommand->callback([words, as_man, &app] {
    const CLI::App* page = &app;
    for (const std::string& word : *words) {
      const auto found =
          page->get_subcommands([&](const CLI::App* next) { return next->get_name() == word; });
      if (found.empty()) {
        throw InputError(page == &app ? "tracecast help" : command_of(*page), "\"" + word + "\"",
                         !subcommands_of(*page).empty()
                             ? describe_choices(word, subcommands_of(*page))
                             : "no further subcommand");
      }
      page = found.front();
    }
    write_report(*as_man ? man_page(*page, command_of(*page)) : help_of(*page));
  });
}

void add_completion_command(CLI::App& app, int&) {
  auto shell = std::make_shared<std::string>();
  CLI::App* subcommand = app.add_subcommand("completion", "Print a script that completes commands");
  subcommand->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  subcommand->footer(
      "Example: tracecast completion fish > ~/.config/fish/completions/tracecast.fish");
  subcommand->callback([shell, &app] { write_report(completion_script(app, *shell)); });
}

/// What there is, for somebody who typed the name alone.
constexpr std::string_view kFirstPage =
    "tracecast predicts how fast a deep-learning network runs on a GPU, without the\n"
    "GPU, and says where the time of a recorded profile goes.\n"
    "\n"
    "  tracecast predict resnet50 --gpu v100 --batch 64         one GPU\n"
    "  tracecast predict resnet50 --gpu v100 --gpus 8 --machine dgx1\n"
    "  tracecast trace summary profile.pt.trace.json.gz         a recorded profile\n"
    "  tracecast networks                                       what it can predict\n"
    "  tracecast gpus                                           and on which GPUs\n"
    "\n"
    "All subcommands: tracecast --help. Flags of one: tracecast help predict.\n";

void add_version_command(CLI::App& app, int&) {
  app.add_subcommand("version", "Print the version")->callback([] {
    write_report(version_text());
  });
}

struct Subcommand {
  std::string_view name;
  void (*add)(CLI::App& app, int& exit_code);
};
constexpr Subcommand kSubcommands[] = {
    {"predict", add_predict_command},
    {"colocate", add_colocate_command},
    {"validate", add_validate_command},
    {"gpus", add_gpus_command},
    {"hardware", add_hardware_command},
    {"networks", add_networks_command},
    {"calibrate", add_calibrate_command},
    {"cluster", add_cluster_command},
    {"collectives", add_collectives_command},
    {"net", add_net_command},
    {"compare", add_compare_command},
    {"plan", add_plan_command},
    {"schedule", add_schedule_command},
    {"serve", add_serve_command},
    {"study", add_study_command},
    {"sweep", add_sweep_command},
    {"query", add_query_command},
    {"trace", add_trace_command},
    {"completion", add_completion_command},
    {"help", add_help_command},
    {"version", add_version_command},
};

/// The subcommand that the first word names: to declare all of them takes longer than many an
/// answer. Every subcommand where it names none, and for `help` and `completion`, which tell of
/// any.
void add_subcommands(CLI::App& app, std::string_view first_word, int& exit_code) {
  const auto is_named = [&](const Subcommand& subcommand) { return subcommand.name == first_word; };
  const auto* named = std::find_if(std::begin(kSubcommands), std::end(kSubcommands), is_named);
  if (named != std::end(kSubcommands) && named->name != "help" && named->name != "completion")
    return named->add(app, exit_code);
  for (const Subcommand& subcommand : kSubcommands) subcommand.add(app, exit_code);
}

}  // namespace

int run_command(std::vector<std::string> words) {
  CLI::App app("Predicts how fast a deep-learning network runs on a GPU, without the GPU.",
               "tracecast");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(
      "Exit codes: 0 done; 1 answered, and the answer is no; 2 the input is wrong;\n"
      "3 no usable GPU; 70 a bug of ours.");
  app.formatter(std::make_shared<HelpFormatter>());

  int exit_code = kExitDone;
  add_subcommands(app, words.empty() ? std::string() : words.front(), exit_code);
  add_version_flag(app);
  if (words.empty()) {
    write_report(kFirstPage);
    return kExitDone;
  }

  refuse_empty_values(words);
  try {
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    write_report(help_of(active_subcommand(app)));
  } catch (const CLI::CallForVersion&) {
    write_report(version_text());
  } catch (const CLI::CallForAllHelp&) {
    write_report(app.help("", CLI::AppFormatMode::All));
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    throw explain(error, app);
  }
  return exit_code;
}

int run_program(std::vector<std::string> words) noexcept {
  try {
    return run_command(std::move(words));
  } catch (const InputError& error) {
    say(error.what());
    return kExitWrongInput;
  } catch (const std::bad_alloc&) {
    say("tracecast: out of memory; expected a smaller input or more memory");
    return kExitWrongInput;
  } catch (const std::exception& error) {
    say(std::string("tracecast has a bug: ") + error.what());
    return kExitOurBug;
  }
}

}  // namespace tracecast
