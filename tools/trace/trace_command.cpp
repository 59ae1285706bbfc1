#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/report/page.hpp"
#include "tools/trace/trace_convert.hpp"
#include "tools/trace/trace_diff.hpp"
#include "tools/trace/trace_record.hpp"
#include "tools/trace/trace_replay.hpp"
#include "tools/trace/trace_report.hpp"
#include "traces/ranks/read.hpp"
#include "traces/recorded_timeline.hpp"

namespace tracecast {
namespace {

struct SummaryOptions {
  std::vector<std::string> files;
  std::string format = "text";
  std::string from, to;
  std::string report;  ///< file
  bool strict = false;
};

/// "350ms" in nanoseconds; nothing for "". Throws InputError.
std::optional<std::int64_t> time_of(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string unit = text.substr(end);
  const auto number = parse_double(std::string_view(text).substr(0, end));
  const double ns = unit == "s"    ? 1e9
                    : unit == "ms" ? 1e6
                    : unit == "us" ? 1e3
                    : unit == "ns" ? 1
                                   : 0;
  if (!number || ns == 0 || *number * ns > 2e18)
    throw InputError(option, "\"" + text + "\"",
                     "a time since the recording's begin: 1.5s, 350ms, 80us");
  return std::llround(*number * ns);
}

traces::Window window_of(const SummaryOptions& options) {
  const traces::Window window{time_of("--from", options.from), time_of("--to", options.to)};
  if (window.to_ns && *window.to_ns <= window.from_ns.value_or(0))
    throw InputError("--to", options.to,
                     options.from.empty() ? "more than 0" : "more than --from " + options.from);
  return window;
}

/// Writes the page as well where one is asked for.
TraceReport summarize_files(const std::vector<std::filesystem::path>& files,
                            const SummaryOptions& options) {
  traces::Recording recording = traces::read_ranks(files, window_of(options));
  if (!options.from.empty() || !options.to.empty()) {
    for (traces::Trace& trace : recording.traces) {
      trace.format += ", from " + (options.from.empty() ? "its begin" : options.from) + " to " +
                      (options.to.empty() ? "its end" : options.to);
    }
  }
  const traces::KernelNames names = traces::KernelNames::builtin();
  TraceReport report;
  for (const traces::Trace& trace : recording.traces)
    report.ranks.push_back(traces::summarize(trace, names));
  report.total = traces::summarize_ranks(report.ranks);
  report.findings = find_rank_behaviour(recording.traces, names);
  if (!options.report.empty()) {
    std::optional<Timeline> timeline;
    if (report.total.span_ns > 0) timeline = traces::recorded_timeline(recording, names);
    write_page(trace_page(report, timeline ? &*timeline : nullptr), options.report);
  }
  return report;
}

/// What `--strict` does not let pass.
bool has_damage(const traces::Summary& summary) {
  for (const auto& [kind, entry] : summary.left_out) {
    if (entry.is_damage) return true;
  }
  return summary.overrunning > 0;
}

int print_summary(SummaryOptions& options) {
  check_report(options.report);
  StandardInput input;
  for (std::string& file : options.files) input.resolve(file, kMostPipedTrace);
  const std::vector<std::filesystem::path> paths(options.files.begin(), options.files.end());
  const TraceReport report = summarize_files(paths, options);
  if (options.format == "json") {
    std::vector<TraceFile> files;
    for (const std::filesystem::path& file : traces::recorded_files(paths))
      files.push_back({file.filename().string(), sha256_of_file(file)});
    write_report(trace_json(report, files));
  } else {
    write_report(options.format == "csv" ? trace_csv(report) : trace_text(report));
  }
  return options.strict && has_damage(report.total) ? kExitNo : kExitDone;
}

}  // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  CLI::App* subcommand = app.add_subcommand("trace", "Read and understand recorded profiles");
  subcommand->require_subcommand(1);
  add_trace_record(*subcommand, exit_code);
  add_trace_replay(*subcommand, exit_code);
  add_trace_convert(*subcommand, exit_code);
  add_trace_diff(*subcommand, exit_code);

  auto options = std::make_shared<SummaryOptions>();
  CLI::App* summary =
      subcommand->add_subcommand("summary", "Say where the time of a recorded profile goes");
  summary
      ->add_option(
          "file", options->files,
          "Profile: PyTorch Kineto or execution trace, Chakra, nvprof log, Nsight Systems "
          "SQLite, .tctrace; plain, gzip, or a tar archive of several ranks; - is standard "
          "input. Several files, or a folder, are the ranks of one job")
      ->type_name("FILE")
      ->required();
  add_format_option(*summary, options->format);
  add_report_option(*summary, options->report);
  summary
      ->add_option("--from", options->from,
                   "Leave out what ended earlier: 350ms, counted from the recording's begin")
      ->type_name("TIME");
  summary->add_option("--to", options->to, "Leave out what began later: 1.5s")->type_name("TIME");
  summary->add_flag("--strict", options->strict, "Exit code 1 when records are damaged");
  summary->callback([options, &exit_code] { exit_code = print_summary(*options); });
}

}  // namespace tracecast
