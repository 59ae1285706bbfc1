#include "tools/trace/trace_convert.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "traces/chakra/writer.hpp"
#include "traces/chrome/recording_writer.hpp"
#include "traces/open.hpp"
#include "traces/perfetto/writer.hpp"
#include "traces/ranks/one_job.hpp"
#include "traces/record/writer.hpp"
#include "traces/recorded_timeline.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

struct ConvertCommand {
  std::string file, to, out;
  std::optional<std::size_t> rank;
};

/// A format that can be written.
struct Target {
  const char *name, *ending;
  bool one_rank;    ///< a file holds one process
  bool needs_time;  ///< records without a begin cannot be written
  bool has_nodes;   ///< holds graph nodes
  bool is_binary;
};
constexpr Target kTargets[] = {
    {"perfetto", ".pftrace", false, true, false, true},
    {"chrome", ".json", true, true, false, false},
    {"chakra", ".et", true, true, true, true},
    {"tracecast", ".tctrace", false, false, true, true},
};

const Target& find_target(const std::string& name) {
  for (const Target& target : kTargets) {
    if (name == target.name) return target;
  }
  throw InputError("--to", name, "perfetto, chrome, chakra or tracecast");
}

/// The recording's name with another ending, in the current folder; standard output for standard
/// input.
std::string output_name(const ConvertCommand& command, const Target& target) {
  if (!command.out.empty()) return command.out;
  if (command.file == "-") return "-";
  std::string name = fs::path(command.file).filename().string();
  for (const char* ending : {".gz", ".tgz", ".tar", ".json", ".sqlite", ".csv", ".txt", ".log",
                             ".et", ".tctrace", ".pftrace"}) {
    if (name.ends_with(ending) && name.size() > std::string_view(ending).size())
      name.resize(name.size() - std::string_view(ending).size());
  }
  if (command.rank) name += ".rank" + std::to_string(*command.rank);
  return name + target.ending;
}

std::size_t timed_records(const traces::Trace& t) {
  return t.kernels.size() + t.copies.size() + t.memsets.size() + t.calls.size() + t.ops.size() +
         t.marks.size();
}

/// Keeps the rank that was asked for. Throws InputError when the target cannot hold what is there.
void choose(traces::Recording& recording, const ConvertCommand& command, const Target& target) {
  const std::size_t ranks = recording.traces.size();
  if (command.rank) {
    if (*command.rank >= ranks)
      throw InputError("--rank", std::to_string(*command.rank),
                       "0 to " + std::to_string(ranks - 1) + ": the file's traces in order");
    traces::Recording chosen;
    chosen.traces.push_back(std::move(recording.traces[*command.rank]));
    recording = std::move(chosen);
  } else if (target.one_rank && ranks > 1) {
    throw InputError(command.file, std::to_string(ranks) + " ranks",
                     fmt::format("one: --rank 0 to {}, or --to tracecast", ranks - 1));
  }
  traces::check_one_job(recording.traces);
  const traces::Trace& first = recording.traces.front();
  const bool has_graph = target.has_nodes && first.nodes.size() > 0;
  if (target.needs_time && !has_graph && timed_records(first) == 0)
    throw InputError(command.file, "no work with begin and duration",
                     "a recording of when work ran, or --to tracecast");
}

/// What the written file does not hold, in words.
std::vector<std::string> losses(const traces::Trace& t, const Target& target) {
  std::vector<std::string> list;
  const auto note = [&list](std::uint64_t count, const char* what) {
    if (count > 0) list.push_back(fmt::format("{} {}", count, what));
  };
  if (target.needs_time) {
    note(t.totals.size(), "sums over a name");
    note(t.metrics.size(), "metrics");
    if (!target.has_nodes) note(t.nodes.size(), "graph nodes");
  }
  if (std::string_view(target.name) == "perfetto") {
    note(t.syncs.size(), "waits that the profiler recorded");
    note(t.allocations.size(), "allocations");
    if (!t.geometries.empty() && t.kernels.size() > 0)
      list.emplace_back("grids and blocks of kernels, shapes of operators");
  }
  if (std::string_view(target.name) == "chakra" && t.nodes.size() == 0) {
    note(t.ops.size(), "operators (their shapes stand with their kernels)");
    note(t.allocations.size(), "allocations");
    list.emplace_back("begins: what waited for what stands in their place");
  }
  std::uint64_t left_out = 0;
  for (const auto& [kind, entry] : t.left_out) left_out += entry.count;
  note(left_out, "events that reading left out (trace summary lists them)");
  return list;
}

int convert(ConvertCommand& command) {
  const Target& target = find_target(command.to);
  const std::string out = output_name(command, target);
  if (out == "-" && target.is_binary && ::isatty(STDOUT_FILENO) != 0)
    throw InputError("--out", "a terminal",
                     fmt::format("a file or a pipe: {} is binary", command.to));
  StandardInput input;
  input.resolve(command.file, kMostPipedTrace);
  traces::Recording recording = traces::read_recording(command.file);
  choose(recording, command, target);
  std::error_code error;
  traces::ChakraLosses chakra;
  if (fs::equivalent(out, command.file, error))
    throw InputError("--out", out, "another file than the one that is read");
  const std::uint64_t bytes = traces::write_output_file(out, [&](const traces::ByteSink& sink) {
    if (command.to == "tracecast") return traces::write_records(recording, sink);
    if (command.to == "chakra") {
      chakra = traces::write_chakra(recording.traces.front(), traces::KernelNames::builtin(), sink);
      return;
    }
    if (command.to == "perfetto") {
      return traces::write_perfetto_trace(
          traces::recorded_timeline(recording, traces::KernelNames::builtin()), sink);
    }
    traces::write_chrome_recording(recording.traces.front(), sink);
  });
  if (out != "-") say(fmt::format("wrote {} ({:.1f} MB)", out, static_cast<double>(bytes) / 1e6));
  for (const std::string& loss : losses(recording.traces.front(), target))
    say("not in it: " + loss);
  if (chakra.lag_ns > 0)
    say(fmt::format("not in it: {:.3f} ms between work and what waited for it, in all",
                    static_cast<double>(chakra.lag_ns) * 1e-6));
  if (chakra.untold_collectives > 0)
    say(fmt::format("as computation: {} collectives between two ranks, or of no known kind",
                    chakra.untold_collectives));
  return kExitDone;
}

}  // namespace

void add_trace_convert(CLI::App& trace, int& exit_code) {
  auto command = std::make_shared<ConvertCommand>();
  CLI::App* subcommand =
      trace.add_subcommand("convert", "Write a recorded profile in another format");
  subcommand
      ->add_option("file", command->file, "Recorded profile, as for summary; - is standard input")
      ->type_name("FILE")
      ->required();
  subcommand
      ->add_option(
          "--to", command->to,
          "perfetto: Perfetto's own form for ui.perfetto.dev, all ranks together; chrome:\n"
          "JSON of PyTorch's profiler, also for speedscope and chrome://tracing; chakra:\n"
          "a rank's execution trace for other simulators: what waited for what;\n"
          "tracecast: our own form, small and complete")
      ->type_name("FORMAT")
      ->required();
  subcommand
      ->add_option("-o,--out", command->out,
                   "File to write, - for standard output; default: the\n"
                   "name with another ending")
      ->type_name("OUT");
  subcommand->add_option("--rank", command->rank, "One of several traces of the file, from 0 on")
      ->type_name("N");
  subcommand->footer("Example: tracecast trace convert export.sqlite --to chrome -o export.json");
  subcommand->callback([command, &exit_code] { exit_code = convert(*command); });
}

}  // namespace tracecast
