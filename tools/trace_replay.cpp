#include "tools/trace_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/cluster/replay.hpp"
#include "tools/output.hpp"
#include "tools/sha256.hpp"
#include "tools/subcommand.hpp"
#include "tools/version.hpp"
#include "traces/chrome/writer.hpp"
#include "traces/open.hpp"
#include "traces/replay/program.hpp"
#include "traces/summary.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

struct ReplayCommand {
  std::string file;
  std::string format = "text";
  bool as_recorded = false;
  bool without_input = false;
  std::string trace;  ///< file to write
};

/// One rank, recorded and replayed. Times in seconds.
struct RankReplay {
  std::optional<std::int64_t> rank;
  std::string gpu;
  std::vector<std::string> step_names;
  std::vector<double> recorded_steps, predicted_steps;
  double recorded_busy = 0, predicted_busy = 0;
  double span = 0;  ///< predicted, of everything
  std::size_t gpu_work = 0, tasks = 0, dependencies = 0;
  double input = 0;  ///< loading of data, in the recording
  traces::ReplayAccount account;
};

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

RankReplay replay_rank(const traces::Trace& trace, const traces::KernelNames& names,
                       const ReplayCommand& command) {
  const traces::Summary summary = traces::summarize(trace, names);
  traces::ReplayBuild build = traces::build_replay_program(trace, names);
  if (build.program.tasks.empty())
    throw InputError(trace.source, "no work with begin and duration",
                     "a recording of when work ran");
  const ReplayRun run = replay(build.program, {.without_input = command.without_input});
  if (!command.trace.empty())
    traces::write_chrome_trace(timeline_of(build.program, run, summary.gpu), command.trace);
  RankReplay result;
  result.rank = trace.rank;
  result.gpu = summary.gpu;
  for (std::size_t i = 0; i < build.program.steps.size(); ++i) {
    const std::string& name = build.program.names[build.program.steps[i].name];
    result.step_names.push_back(name);
    const auto recorded = std::find_if(summary.steps.begin(), summary.steps.end(),
                                       [&](const auto& step) { return step.name == name; });
    if (recorded != summary.steps.end())
      result.recorded_steps.push_back(seconds(recorded->tally.ns));
    result.predicted_steps.push_back(run.steps[i].in_seconds().in_s());
  }
  result.recorded_busy = seconds(summary.busy_ns);
  result.predicted_busy = run.kernel_busy.in_seconds().in_s();
  result.span = run.schedule.makespan.in_seconds().in_s();
  for (const ReplayTask& task : build.program.tasks) {
    if (is_on_gpu(task.work)) ++result.gpu_work;
    if (task.work == ReplayWork::Input) result.input += seconds(task.duration_ns);
  }
  result.tasks = build.program.tasks.size();
  result.dependencies = build.program.dependencies.size();
  result.account = build.account;
  return result;
}

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(); }

Json rank_json(const RankReplay& r) {
  const auto recorded = median(r.recorded_steps), predicted = median(r.predicted_steps);
  Json steps = Json::array();
  for (std::size_t i = 0; i < r.step_names.size() && i < r.recorded_steps.size(); ++i) {
    steps.push_back({{"name", r.step_names[i]},
                     {"recorded_s", r.recorded_steps[i]},
                     {"predicted_s", r.predicted_steps[i]}});
  }
  Json json{{"rank", r.rank ? Json(*r.rank) : Json()},
            {"gpu", r.gpu},
            {"recorded_step_s", or_null(recorded)},
            {"predicted_step_s", or_null(predicted)},
            {"recorded_busy_s", r.recorded_busy},
            {"predicted_busy_s", r.predicted_busy},
            {"predicted_span_s", r.span},
            {"recorded_input_s", r.input},
            {"steps", std::move(steps)}};
  const traces::ReplayAccount& a = r.account;
  json["account"] = {{"gpu_work", r.gpu_work},
                     {"tasks", r.tasks},
                     {"dependencies", r.dependencies},
                     {"unlaunched", a.unlaunched},
                     {"before_launch", a.early},
                     {"overlapping_in_stream", a.overlapping},
                     {"stream_waits_recorded", a.event_waits},
                     {"stream_waits_inferred", a.inferred_waits},
                     {"waits_refuted", a.refuted_waits},
                     {"host_waits", a.host_waits},
                     {"handoffs", a.handoffs},
                     {"late", a.late},
                     {"late_s", seconds(a.late_ns)}};
  return json;
}

/// The document: the first rank's figures, then every rank's when there are several.
std::string replay_json(const std::vector<RankReplay>& ranks, const ReplayCommand& command) {
  Json json{{"schema", "tracecast.trace_replay/1"},
            {"version", kVersion},
            {"inputs",
             {{{"kind", "trace"},
               {"name", std::filesystem::path(command.file).filename().string()},
               {"sha256", sha256_of_file(command.file)}}}},
            {"as_recorded", command.as_recorded},
            {"without_input", command.without_input}};
  json.update(rank_json(ranks.front()));
  if (ranks.size() > 1) {
    json["ranks"] = Json::array();
    for (const RankReplay& rank : ranks) json["ranks"].push_back(rank_json(rank));
  }
  return json.dump(2) + '\n';
}

std::string ms(double s) { return three_digits(s * 1e3) + " ms"; }

std::string compare(std::optional<double> recorded, std::optional<double> predicted) {
  if (!recorded || !predicted) return "not marked in the recording";
  std::string text = fmt::format("{} replayed, {} recorded", ms(*predicted), ms(*recorded));
  if (*recorded > 0) text += fmt::format(" ({:+.2f} %)", (*predicted / *recorded - 1) * 100);
  return text;
}

std::string line(std::string_view what, const std::string& text) {
  return fmt::format("{:<14}{}\n", what, wrap(text, 66, 14));
}

std::string rank_text(const RankReplay& r) {
  std::string text;
  if (r.rank) text += line("Rank", std::to_string(*r.rank));
  text += line("GPU", r.gpu.empty() ? "not recorded" : r.gpu);
  text += line("Step", compare(median(r.recorded_steps), median(r.predicted_steps)));
  text += line("GPU busy", compare(r.recorded_busy, r.predicted_busy));
  const traces::ReplayAccount& a = r.account;
  text += line("Rebuilt", fmt::format("{} kernels and copies, {} tasks in all, {} dependencies",
                                      r.gpu_work, r.tasks, r.dependencies));
  text += line("Waits", fmt::format("{} of the host; of streams {} recorded and {} inferred; {} "
                                    "turns of threads",
                                    a.host_waits, a.event_waits, a.inferred_waits, a.handoffs));
  if (r.input > 0) text += line("Input", ms(r.input) + " of loading by threads that launch");
  const auto note = [&text](std::uint64_t count, std::string_view what) {
    if (count > 0) text += line("Note", fmt::format("{} {}", count, what));
  };
  note(a.unlaunched, "pieces of GPU work have no recorded launch");
  note(a.early, "begin before their launch by the recording's clocks");
  note(a.overlapping, "overlap work of their own stream and do not wait for it");
  note(a.refuted_waits, "waits that the recorded times contradict were dropped");
  note(a.late, fmt::format("begin later than anything recorded explains, by {} in all",
                           ms(seconds(a.late_ns))));
  return text;
}

int print_replay(const ReplayCommand& command) {
  const traces::Recording recording = traces::read_recording(command.file);
  const traces::KernelNames names = traces::KernelNames::builtin();
  std::vector<RankReplay> ranks;
  if (!command.trace.empty() && recording.traces.size() != 1)
    throw InputError("--trace", std::to_string(recording.traces.size()) + " ranks", "one");
  for (const traces::Trace& trace : recording.traces)
    ranks.push_back(replay_rank(trace, names, command));
  if (command.format == "json") {
    write_answer(replay_json(ranks, command));
    return kExitDone;
  }
  std::string text;
  for (const RankReplay& rank : ranks) {
    if (!text.empty()) text += '\n';
    text += rank_text(rank);
  }
  if (command.without_input) text += "Loading of data takes no time in this replay.\n";
  write_answer(text);
  return kExitDone;
}

}  // namespace

void add_trace_replay(CLI::App& trace, int& exit_code) {
  auto command = std::make_shared<ReplayCommand>();
  CLI::App* verb =
      trace.add_subcommand("replay", "Run a recorded job again from what its work waits for");
  verb->add_option("file", command->file, "Recorded profile, as for summary")
      ->type_name("FILE")
      ->required();
  verb->add_flag("--as-recorded", command->as_recorded, "On the GPU it was recorded on")
      ->required();
  verb->add_flag("--without-input", command->without_input, "Loading of data takes no time");
  verb->add_option("--trace", command->trace, "Write the replay as a trace for ui.perfetto.dev")
      ->type_name("FILE");
  verb->add_option("--format", command->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  verb->callback([command, &exit_code] { exit_code = print_replay(*command); });
}

}  // namespace tracecast
