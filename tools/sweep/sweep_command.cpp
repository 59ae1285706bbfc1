#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/plan/fingerprint.hpp"
#include "tools/report/page.hpp"
#include "tools/sweep/ranks.hpp"
#include "tools/sweep/run.hpp"
#include "tools/sweep/sweep_page.hpp"

namespace tracecast {
namespace {

constexpr std::uint64_t kMostGridBytes = 1 << 20;
constexpr std::size_t kMostReasons = 5;  ///< that are reported

struct SweepFlags {
  std::string grid, output;
  std::int64_t threads = 0;
  SourceOptions sources;
  std::string format = "text";
  std::string report;  ///< file
};

volatile std::sig_atomic_t asked_to_stop = 0;

/// Seconds from the wish to stop to the end whatever goes on: a point may be long, and so may be
/// what is read for it.
constexpr unsigned kPatienceSeconds = 2;

/// While it lives an interrupt asks for an end in order, and gets one at the latest after
/// kPatienceSeconds: rows that are in the file stay. A second one ends the program.
class StopSignals {
 public:
  StopSignals() {
    struct sigaction action {};
    action.sa_handler = [](int) {
      asked_to_stop = 1;
      ::alarm(kPatienceSeconds);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    asked_to_stop = 0;
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
    action.sa_handler = [](int) {
      constexpr std::string_view kWords = "interrupted: the same command goes on\n";
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kWords.data(), kWords.size());
      ::_exit(kExitInterrupted);
    };
    sigaction(SIGALRM, &action, &alarm_);
  }
  ~StopSignals() {
    ::alarm(0);
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
    sigaction(SIGALRM, &alarm_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{}, alarm_{};
};

/// "2 h 5 min", "3 min 20 s", "12 s".
std::string time_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::min(seconds, 1e9) + 0.5);
  if (s >= 3600) return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
  if (s >= 60) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} s", s);
}

std::string progress_line(const SweepProgress& p) {
  const std::int64_t done = p.known + p.predicted;
  const double rate = p.seconds > 0 ? static_cast<double>(p.predicted) / p.seconds : 0;
  std::string line =
      fmt::format("{} of {} points ({:.0f} %)", done, p.points, 100 * share_of(done, p.points));
  if (rate > 0)
    line += fmt::format(", {:.3g} points/s, {} left", rate,
                        time_text(static_cast<double>(p.points - done) / rate));
  return line;
}

/// Reasons of refusals, the most frequent first.
std::vector<std::pair<std::string, std::int64_t>> reasons_of(const SweepSummary& summary) {
  std::vector<std::pair<std::string, std::int64_t>> list(summary.reasons.begin(),
                                                         summary.reasons.end());
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (list.size() > kMostReasons) list.resize(kMostReasons);
  return list;
}

std::string text_of(const SweepSummary& s, const std::string& file) {
  std::string page;
  add_line(page, "Results", file);
  add_line(page, "Points", fmt::format("{}", s.points));
  add_line(page, "Predicted", fmt::format("{}", s.succeeded));
  add_line(page, "Do not fit", fmt::format("{} in memory: answered as if they did", s.too_large));
  add_line(page, "Refused", fmt::format("{}", s.refused));
  if (s.bugs > 0) add_line(page, "Our bugs", fmt::format("{}", s.bugs));
  for (const auto& [reason, count] : reasons_of(s))
    add_line(page, fmt::format("  {} times", count), reason);
  return page;
}

std::string json_of(const SweepSummary& s, const std::string& file) {
  nlohmann::ordered_json doc{{"schema", fmt::format("tracecast.sweep/{}", kSchema)},
                             {"version", kVersion},
                             {"file", file},
                             {"points", s.points},
                             {"succeeded", s.succeeded},
                             {"too_large", s.too_large},
                             {"refused", s.refused},
                             {"bugs", s.bugs}};
  doc["reasons"] = nlohmann::ordered_json::array();
  for (const auto& [reason, count] : reasons_of(s))
    doc["reasons"].push_back({{"reason", reason}, {"points", count}});
  return json_text(doc) + '\n';
}

std::string csv_of(const SweepSummary& s) {
  return fmt::format("points,succeeded,too_large,refused,bugs\n{},{},{},{},{}\n", s.points,
                     s.succeeded, s.too_large, s.refused, s.bugs);
}

int end_of(const SweepFlags& flags, const SweepGrid& grid, const SweepSummary& s) {
  say(fmt::format("{} of {} points predicted now, in {:.1f} s", s.predicted, s.points, s.seconds));
  if (s.interrupted) {
    say(fmt::format("interrupted: {} of {} points are in {}; the same command goes on",
                    s.known + s.predicted, s.points, flags.output));
    return kExitInterrupted;
  }
  if (!flags.report.empty()) write_sweep_page(grid, s, flags.output, flags.report);
  write_report(flags.format == "json"  ? json_of(s, flags.output)
               : flags.format == "csv" ? csv_of(s)
                                       : text_of(s, flags.output));
  if (s.bugs > 0) return kExitOurBug;
  return s.succeeded + s.too_large > 0 ? kExitDone : kExitNo;
}

int run(const SweepFlags& flags) {
  refuse_standard_output("--output", flags.output);
  check_report(flags.report);
  std::optional<SweepRanks> ranks = SweepRanks::join();
  const StopSignals signals;
  const SweepGrid grid(read_file(flags.grid, kMostGridBytes), flags.grid);
  const Predictor predictor(load_hardware(flags.sources));
  SweepOptions options;
  options.file = flags.output;
  options.fingerprint = fingerprint_of(flags.sources);
  options.threads = static_cast<unsigned>(flags.threads);
  options.stops = [] { return asked_to_stop != 0; };
  options.on_progress = [](const SweepProgress& p) { say_progress(progress_line(p)); };
  options.ranks = ranks ? &*ranks : nullptr;
  if (ranks && ranks->rank() > 0) {
    help_sweep(grid, predictor, options);
    return kExitDone;
  }
  try {
    const SweepSummary summary = run_sweep(grid, predictor, options);
    say_progress("");
    return end_of(flags, grid, summary);
  } catch (...) {
    say_progress("");
    throw;
  }
}

}  // namespace

void add_sweep_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SweepFlags>();
  CLI::App* subcommand = app.add_subcommand(
      "sweep", "Predict every point of a grid into a file of results; again: what is missing");
  subcommand
      ->add_option("grid", flags->grid,
                   "Blocks predict { ... } and serve { ... } whose fields are the flags of these "
                   "subcommands, each with all its values")
      ->required()
      ->type_name("FILE");
  subcommand
      ->add_option("-o,--output", flags->output,
                   "SQLite file, made or continued: tables predictions, servings, grids, inputs")
      ->required()
      ->type_name("FILE");
  subcommand->add_option("--threads", flags->threads, "That predict; 0: all cores")
      ->type_name("N")
      ->check(whole_number(0, 1024) & CLI::Range(0, 1024));
  add_source_options(*subcommand, flags->sources);
  add_format_option(*subcommand, flags->format);
  add_report_option(*subcommand, flags->report);
  subcommand->footer("Example: tracecast sweep grid.textproto -o results.db");
  subcommand->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tracecast
