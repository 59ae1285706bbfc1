#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tools/output.hpp"
#include "tools/sha256.hpp"
#include "tools/subcommand.hpp"
#include "tools/trace_convert.hpp"
#include "tools/trace_diff.hpp"
#include "tools/trace_record.hpp"
#include "tools/trace_replay.hpp"
#include "tools/trace_report.hpp"
#include "traces/ranks/read.hpp"

namespace tracecast {
namespace {

struct SummaryOptions {
  std::vector<std::string> files;
  std::string format = "text";
  bool strict = false;
};

TraceReport summarize_files(const std::vector<std::filesystem::path>& files) {
  const traces::Recording recording = traces::read_ranks(files);
  const traces::KernelNames names = traces::KernelNames::builtin();
  TraceReport report;
  for (const traces::Trace& trace : recording.traces)
    report.ranks.push_back(traces::summarize(trace, names));
  report.total = traces::summarize_ranks(report.ranks);
  report.findings = find_rank_behaviour(recording.traces, names);
  return report;
}

bool has_damage(const traces::Summary& summary) {
  for (const auto& [kind, entry] : summary.left_out) {
    if (entry.is_damage) return true;
  }
  return false;
}

int print_summary(const SummaryOptions& options) {
  const std::vector<std::filesystem::path> paths(options.files.begin(), options.files.end());
  const TraceReport report = summarize_files(paths);
  if (options.format == "json") {
    std::vector<TraceFile> files;
    for (const std::filesystem::path& file : traces::recorded_files(paths))
      files.push_back({file.filename().string(), sha256_of_file(file)});
    write_answer(trace_json(report, files));
  } else {
    write_answer(options.format == "csv" ? trace_csv(report) : trace_text(report));
  }
  return options.strict && has_damage(report.total) ? kExitNo : kExitDone;
}

}  // namespace

void add_trace_command(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("trace", "Read and understand recorded profiles");
  verb->require_subcommand(1);
  add_trace_record(*verb, exit_code);
  add_trace_replay(*verb, exit_code);
  add_trace_convert(*verb, exit_code);
  add_trace_diff(*verb, exit_code);

  auto options = std::make_shared<SummaryOptions>();
  CLI::App* summary =
      verb->add_subcommand("summary", "Say where the time of a recorded profile goes");
  summary
      ->add_option(
          "file", options->files,
          "Profile: PyTorch Kineto or execution trace, Chakra, nvprof log, Nsight Systems\n"
          "SQLite, .tctrace; plain, gzip, or a tar archive of several ranks. Several\n"
          "files, or a folder, are the ranks of one job")
      ->type_name("FILE")
      ->required();
  add_format_option(*summary, options->format);
  summary->add_flag("--strict", options->strict, "Exit code 1 when records are damaged");
  summary->callback([options, &exit_code] { exit_code = print_summary(*options); });
}

}  // namespace tracecast
