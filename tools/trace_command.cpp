#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "tools/output.hpp"
#include "tools/sha256.hpp"
#include "tools/subcommand.hpp"
#include "tools/trace_replay.hpp"
#include "tools/trace_report.hpp"
#include "traces/open.hpp"

namespace tracecast {
namespace {

struct SummaryOptions {
  std::string file;
  std::string format = "text";
  bool strict = false;
};

TraceReport summarize_file(const std::string& file) {
  const traces::Recording recording = traces::read_recording(file);
  const traces::KernelNames names = traces::KernelNames::builtin();
  TraceReport report;
  for (const traces::Trace& trace : recording.traces)
    report.ranks.push_back(traces::summarize(trace, names));
  report.total = traces::summarize_ranks(report.ranks);
  return report;
}

bool has_damage(const traces::Summary& summary) {
  for (const auto& [kind, entry] : summary.left_out) {
    if (entry.is_damage) return true;
  }
  return false;
}

int print_summary(const SummaryOptions& options) {
  const TraceReport report = summarize_file(options.file);
  if (options.format == "json") {
    write_answer(trace_json(report, std::filesystem::path(options.file).filename().string(),
                            sha256_of_file(options.file)));
  } else {
    write_answer(options.format == "csv" ? trace_csv(report) : trace_text(report));
  }
  return options.strict && has_damage(report.total) ? kExitNo : kExitDone;
}

}  // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("trace", "Read and understand recorded profiles");
  verb->require_subcommand(1);
  add_trace_replay(*verb, exit_code);

  auto options = std::make_shared<SummaryOptions>();
  CLI::App* summary =
      verb->add_subcommand("summary", "Say where the time of a recorded profile goes");
  summary
      ->add_option(
          "file", options->file,
          "Profile: PyTorch Kineto or execution trace, Chakra, nvprof log, Nsight Systems\n"
          "SQLite; plain, gzip, or a tar archive of several ranks")
      ->type_name("FILE")
      ->required();
  add_format_option(*summary, options->format);
  summary->add_flag("--strict", options->strict, "Exit code 1 when records are damaged");
  summary->callback([options, &exit_code] { exit_code = print_summary(*options); });
}

}  // namespace tracecast
