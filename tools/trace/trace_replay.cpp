#include "tools/trace/trace_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/job/sha256.hpp"
#include "sim/replay/replay.hpp"
#include "sim/replay/replay_rounds.hpp"
#include "sim/replay/replay_transfer.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/report/page.hpp"
#include "tools/trace/replay_page.hpp"
#include "tools/trace/trace_gpu.hpp"
#include "tools/trace/trace_job.hpp"
#include "traces/chrome/writer.hpp"
#include "traces/ranks/read.hpp"
#include "traces/replay/program.hpp"
#include "traces/summary.hpp"
#include "traces/transfer/recorded_work.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

struct ReplayCommand {
  std::vector<std::string> files;
  std::string format = "text";
  bool as_recorded = false;
  bool without_input = false;
  std::string trace;  ///< file to write
  std::string report;
  std::string gpu;   ///< to replay on; empty: as recorded
  std::string from;  ///< recorded on; empty: what the recording says
  std::string tf32 = "convolutions";
  double host_speed = 0;  ///< relative to the recorded host; 0: not asked for
  SourceOptions sources;
  JobChangeOptions job;  ///< what is to be other than recorded among the ranks
  [[nodiscard]] std::vector<std::filesystem::path> paths() const {
    return {files.begin(), files.end()};
  }
};

/// One rank, recorded and replayed. Times in seconds.
struct RankReplay {
  traces::ReplayBuild build;
  std::optional<std::int64_t> rank;
  std::string gpu;
  std::vector<std::string> step_names;
  std::vector<double> recorded_steps, predicted_steps;
  std::optional<double> step;  ///< predicted; none: no steps are marked
  int rounds = 0;              ///< of the recorded steps until they were steady; 0: done once
  bool is_steady = true;       ///< the last two of them took equally long
  double recorded_busy = 0, predicted_busy = 0;
  double span = 0;  ///< predicted, of everything
  std::size_t gpu_work = 0, tasks = 0, dependencies = 0;
  double input = 0;  ///< loading of data, in the recording
  traces::ReplayAccount account;
  std::optional<MovedWork> moved;      ///< to another GPU
  std::string gpu_note;                ///< how the recorded GPU was recognised
  double log_sd = 0;                   ///< of a replay on another GPU
  std::optional<Timeline> timeline{};  ///< where a page wants it
};

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

MoveOptions move_options(const ReplayCommand& command) {
  return {.tf32_convolutions = command.tf32 != "none",
          .tf32_gemms = command.tf32 == "all",
          .host_speed = command.host_speed};
}

/// Steps as they are when the recorded ones go on and on.
void take_steady(const ReplayProgram& program, const ReplayCommand& command, RankReplay& rank) {
  const auto run = run_until_steady(program, {.without_input = command.without_input});
  if (!run) return;
  const SteadySteps& steady = run->ranks.front();
  rank.predicted_steps.clear();
  for (const engine::Picoseconds step : steady.steps)
    rank.predicted_steps.push_back(step.in_seconds().in_s());
  rank.step = steady.step().in_seconds().in_s();
  rank.predicted_busy = steady.kernel_busy.in_seconds().in_s();
  rank.rounds = run->rounds;
  rank.is_steady = run->is_steady;
}

/// `hardware`: where GPUs and prices come from; none for a replay on the recorded GPU. `alone`: not
/// to be replayed with other ranks.
RankReplay replay_rank(const traces::Trace& trace, const traces::KernelNames& names,
                       const ReplayCommand& command, const Hardware* hardware, bool alone) {
  const traces::Summary summary = traces::summarize(trace, names);
  traces::ReplayBuild build = traces::build_replay_program(trace, names);
  if (build.program.tasks.empty())
    throw InputError(trace.source, "no work with begin and duration",
                     "a recording of when work ran");
  RankReplay result;
  result.rank = trace.rank;
  result.gpu = summary.gpu;
  std::string gpu_name = summary.gpu;
  if (!command.gpu.empty()) {
    const GpuSpec& to = hardware->gpus().find(command.gpu);
    const GpuSpec& from = command.from.empty()
                              ? recorded_gpu(trace, hardware->gpus(), result.gpu_note)
                              : hardware->gpus().find(command.from);
    result.moved = move_to(build.program, build.records, traces::recorded_work(trace, names), from,
                           to, hardware->cost(), move_options(command));
    gpu_name = to.name;
  }
  const ReplayRun run = replay(build.program, {.without_input = command.without_input});
  if (alone && !(command.trace.empty() && command.report.empty())) {
    Timeline timeline = timeline_of(build.program, run, gpu_name);
    if (!command.trace.empty()) traces::write_chrome_trace(timeline, command.trace);
    if (!command.report.empty()) result.timeline = std::move(timeline);
  }
  for (std::size_t i = 0; i < build.program.steps.size(); ++i) {
    const std::string& name = build.program.names[build.program.steps[i].name];
    result.step_names.push_back(name);
    const auto recorded = std::find_if(summary.steps.begin(), summary.steps.end(),
                                       [&](const auto& step) { return step.name == name; });
    if (recorded != summary.steps.end())
      result.recorded_steps.push_back(seconds(recorded->tally.ns));
    result.predicted_steps.push_back(run.steps[i].in_seconds().in_s());
  }
  result.step = median(result.predicted_steps);
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
  if (result.moved) result.log_sd = moved_log_sd(*result.moved, result.span, result.predicted_busy);
  if (alone && !command.as_recorded) take_steady(build.program, command, result);
  result.build = std::move(build);
  return result;
}

Json or_null(std::optional<double> value) { return value ? Json(*value) : Json(); }

Json interval_json(double value, double log_sd) {
  const Interval interval = interval90(value, log_sd);
  return {{"value", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

/// Rows of {name: what, recorded_s, predicted_s, share of the recorded time} for what took time.
Json moved_rows(const std::vector<MovedTime>& times, const char* key) {
  double all = 0;
  for (const MovedTime& time : times) all += time.recorded_s;
  Json rows = Json::array();
  for (const MovedTime& time : times) {
    rows.push_back({{key, time.name},
                    {"recorded_s", time.recorded_s},
                    {"predicted_s", time.predicted_s},
                    {"share", time.recorded_s / all}});
  }
  return rows;
}

Json transfer_json(const RankReplay& r) {
  const MovedWork& m = *r.moved;
  Json json{
      {"from", m.from},
      {"to", m.to},
      {"basis", "transferred"},
      {"step_time_s", r.step ? interval_json(*r.step, r.log_sd) : Json()},
      {"kernel_time_s", interval_json(m.kernels.predicted_s, r.log_sd)},
      {"recorded_kernel_time_s", m.kernels.recorded_s},
      {"copies", {{"recorded_s", m.copies.recorded_s}, {"predicted_s", m.copies.predicted_s}}},
      {"ways", moved_rows(m.ways, "way")},
      {"classes", moved_rows(m.classes, "class")}};
  if (!r.gpu_note.empty()) json["note"] = r.gpu_note;
  return json;
}

Json rank_json(const RankReplay& r) {
  const auto recorded = median(r.recorded_steps);
  Json steps = Json::array();
  for (std::size_t i = 0; i < r.step_names.size() && i < r.recorded_steps.size(); ++i) {
    steps.push_back({{"name", r.step_names[i]},
                     {"recorded_s", r.recorded_steps[i]},
                     {"predicted_s", r.predicted_steps[i]}});
  }
  Json json{{"rank", r.rank ? Json(*r.rank) : Json()},
            {"gpu", r.gpu},
            {"recorded_step_s", or_null(recorded)},
            {"predicted_step_s", or_null(r.step)},
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
                     {"launch_queue_waits", a.queue_waits},
                     {"launch_queue_wait_s", seconds(a.queue_wait_ns)},
                     {"handoffs", a.handoffs},
                     {"late", a.late},
                     {"late_s", seconds(a.late_ns)}};
  if (r.rounds > 0) json["steady"] = {{"rounds", r.rounds}, {"is_steady", r.is_steady}};
  if (r.moved) json["transfer"] = transfer_json(r);
  return json;
}

/// Mean over ranks of each one's median; 0 where no step is marked.
double recorded_step(const std::vector<RankReplay>& ranks) {
  double sum = 0;
  std::size_t marked = 0;
  for (const RankReplay& rank : ranks) {
    if (const auto step = median(rank.recorded_steps)) {
      sum += *step;
      ++marked;
    }
  }
  return marked > 0 ? sum / static_cast<double>(marked) : 0;
}

/// The document: the first rank's figures, then every rank's when there are several.
Json replay_json(const std::vector<RankReplay>& ranks, const std::optional<RanksReplay>& job,
                 const ReplayCommand& command) {
  Json inputs = Json::array();
  for (const std::filesystem::path& file : traces::recorded_files(command.paths()))
    inputs.push_back(
        {{"kind", "trace"}, {"name", file.filename().string()}, {"sha256", sha256_of_file(file)}});
  Json json{{"schema", "tracecast.trace_replay/2"},
            {"version", kVersion},
            {"inputs", std::move(inputs)},
            {"as_recorded", command.as_recorded},
            {"without_input", command.without_input}};
  if (!command.gpu.empty()) {
    json["tf32"] = command.tf32;
    if (command.host_speed > 0) json["host_speed"] = command.host_speed;
  }
  json.update(rank_json(ranks.front()));
  if (job) json["job"] = job_json(*job, recorded_step(ranks));
  if (ranks.size() > 1) {
    json["ranks"] = Json::array();
    for (const RankReplay& rank : ranks) json["ranks"].push_back(rank_json(rank));
  }
  return json;
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

/// "wave scaling   12 %     1.30 ms ->     2.10 ms"
std::string moved_lines(const std::vector<MovedTime>& times, double all) {
  std::string text;
  for (const MovedTime& time : times) {
    text += fmt::format("  {:<16}{:>5.1f} %{:>13} ->{:>11}\n", time.name,
                        time.recorded_s / all * 100, ms(time.recorded_s), ms(time.predicted_s));
  }
  return text;
}

/// What a replay on another GPU says before everything else.
std::string transfer_text(const RankReplay& r) {
  const MovedWork& m = *r.moved;
  std::string text = line("GPU", fmt::format("{}, recorded on {}", m.to, m.from));
  if (!r.gpu_note.empty()) text += line("Note", r.gpu_note);
  const auto recorded = median(r.recorded_steps);
  if (r.step) {
    const Interval step = interval90(*r.step, r.log_sd);
    text += line("Step", fmt::format("{} ({} to {}); recorded {}", ms(step.value), ms(step.low),
                                     ms(step.high), recorded ? ms(*recorded) : "?"));
  } else {
    text += line("Step", "not marked in the recording");
  }
  const Interval kernels = interval90(m.kernels.predicted_s, r.log_sd);
  text += line("Kernels", fmt::format("{} ({} to {}); recorded {}", ms(kernels.value),
                                      ms(kernels.low), ms(kernels.high), ms(m.kernels.recorded_s)));
  text +=
      line("GPU busy", fmt::format("{}; recorded {}", ms(r.predicted_busy), ms(r.recorded_busy)));
  text += line("Basis", "transferred: recorded times moved by");
  text += moved_lines(m.ways, m.kernels.recorded_s);
  text += "by class\n" + moved_lines(m.classes, m.kernels.recorded_s);
  if (m.copies.recorded_s > 0)
    text += fmt::format("  {:<23}{:>13} ->{:>11}\n", "copies and memsets", ms(m.copies.recorded_s),
                        ms(m.copies.predicted_s));
  return text;
}

std::string rank_text(const RankReplay& r) {
  std::string text;
  if (r.rank) text += line("Rank", std::to_string(*r.rank));
  if (r.moved) {
    text += transfer_text(r);
  } else {
    text += line("GPU", r.gpu.empty() ? "not recorded" : r.gpu);
    text += line("Step", compare(median(r.recorded_steps), r.step));
    text += line("GPU busy", compare(r.recorded_busy, r.predicted_busy));
  }
  const traces::ReplayAccount& a = r.account;
  if (r.rounds > 1)
    text += line("Rounds", fmt::format("the recorded steps {} times over, the last ones {}",
                                       r.rounds, r.is_steady ? "alike" : "not alike yet"));
  text += line("Rebuilt", fmt::format("{} kernels and copies, {} tasks in all, {} dependencies",
                                      r.gpu_work, r.tasks, r.dependencies));
  text += line("Waits", fmt::format("{} of the host; of streams {} recorded and {} inferred; {} "
                                    "turns of threads",
                                    a.host_waits, a.event_waits, a.inferred_waits, a.handoffs));
  if (a.queue_waits > 0)
    text += line("Launch queue", fmt::format("{} launches had found it full and waited for {}",
                                             a.queue_waits, ms(seconds(a.queue_wait_ns))));
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

void check(const ReplayCommand& command) {
  const bool changes = !command.gpu.empty() || is_changed(command.job);
  if (command.as_recorded == changes)
    throw InputError("trace replay", changes ? "--as-recorded and changes" : "nothing to do",
                     "--as-recorded, or what is to change: --gpu, --gpus, --machine, --set ...");
  if (command.as_recorded && (!command.from.empty() || command.host_speed > 0))
    throw InputError("--as-recorded", command.from.empty() ? "--host-speed" : "--from",
                     "these with --gpu ID only");
}

/// All ranks on one clock: their times replace those of ranks replayed alone.
RanksReplay replay_together(const std::vector<traces::Trace>& traces,
                            const traces::KernelNames& names, std::vector<RankReplay>& ranks,
                            const ReplayCommand& command, const Hardware* hardware) {
  RecordedRanks job{traces, names, {}, "", "", ranks.front().gpu, !command.as_recorded};
  if (hardware) {
    std::string note;
    const GpuSpec& from = command.from.empty()
                              ? recorded_gpu(traces.front(), hardware->gpus(), note)
                              : hardware->gpus().find(command.from);
    const GpuSpec& to = command.gpu.empty() ? from : hardware->gpus().find(command.gpu);
    job.recorded_gpu = from.id;
    job.gpu = to.id;
    if (!command.gpu.empty()) job.gpu_name = to.name;
  }
  for (RankReplay& rank : ranks) job.ranks.push_back(std::move(rank.build));
  RanksReplay result = replay_ranks(std::move(job), command.job, hardware,
                                    {.without_input = command.without_input}, command.trace);
  double of_gpu = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].predicted_steps = result.ranks[r].steps;
    ranks[r].predicted_busy = result.ranks[r].busy;
    if (!result.ranks[r].steps.empty()) ranks[r].step = result.ranks[r].step;
    ranks[r].rounds = result.rounds;
    ranks[r].is_steady = result.is_steady;
    of_gpu = std::max(of_gpu, ranks[r].log_sd);
  }
  result.log_sd = std::hypot(result.log_sd, of_gpu);
  return result;
}

int print_replay(ReplayCommand& command) {
  take_job_changes(command.sources.sets, command.job);
  check(command);
  check_report(command.report);
  refuse_standard_output("--trace", command.trace);
  std::optional<Hardware> hardware;
  if (!command.as_recorded) {
    hardware = load_hardware(command.sources);
    if (!command.gpu.empty())
      (void)hardware->gpus().find(command.gpu);  // before a long file is read
  }
  StandardInput input;
  for (std::string& file : command.files) input.resolve(file, kMostPipedTrace);
  const traces::Recording recording = traces::read_ranks(command.paths());
  const traces::KernelNames names = traces::KernelNames::builtin();
  std::vector<RankReplay> ranks;
  const bool together = recording.traces.size() > 1 || is_changed(command.job);
  for (const traces::Trace& trace : recording.traces)
    ranks.push_back(replay_rank(trace, names, command, hardware ? &*hardware : nullptr, !together));
  std::optional<RanksReplay> job;
  if (together)
    job = replay_together(recording.traces, names, ranks, command, hardware ? &*hardware : nullptr);
  if (!command.report.empty()) {
    const std::optional<Timeline>& timeline = ranks.front().timeline;
    write_replay_page(replay_json(ranks, job, command), timeline ? &*timeline : nullptr,
                      command.report);
  }
  if (command.format == "json") {
    write_report(json_text(replay_json(ranks, job, command)) + '\n');
    return kExitDone;
  }
  std::string text;
  if (job) text = job_text(*job, recorded_step(ranks));
  for (const RankReplay& rank : ranks) {
    if (!text.empty()) text += '\n';
    text += rank_text(rank);
  }
  if (!command.gpu.empty()) {
    text += command.host_speed > 0 ? fmt::format("Host work at {} times the recorded speed; ",
                                                 three_digits(command.host_speed))
                                   : "Host work as recorded (--host-speed); ";
    text += job ? "launch latencies as recorded.\n"
                : "launch latencies and collectives as\nrecorded.\n";
  }
  if (command.without_input) text += "Loading of data takes no time in this replay.\n";
  write_report(text);
  return kExitDone;
}

}  // namespace

void add_trace_replay(CLI::App& trace, int& exit_code) {
  auto command = std::make_shared<ReplayCommand>();
  CLI::App* subcommand =
      trace.add_subcommand("replay", "Run a recorded job again from what its work waits for");
  subcommand
      ->add_option("file", command->files,
                   "Recorded profile, or those of all ranks, as for summary")
      ->type_name("FILE")
      ->required();
  subcommand->add_flag("--as-recorded", command->as_recorded, "With nothing changed");
  subcommand->add_option("--gpu", command->gpu, "On this GPU instead (see `gpus`)")
      ->type_name("ID");
  subcommand
      ->add_option("--from", command->from, "GPU it was recorded on, if the file does not say")
      ->type_name("ID");
  subcommand
      ->add_option("--tf32", command->tf32,
                   "fp32 code that becomes TF32 on a newer GPU: convolutions (as PyTorch),\n"
                   "all (GEMMs too), none")
      ->check(CLI::IsMember({"convolutions", "all", "none"}))
      ->capture_default_str();
  subcommand
      ->add_option("--host-speed", command->host_speed,
                   "Speed of the host's own work, relative to the recorded one")
      ->type_name("X")
      ->check(number_within(0.01, 100));
  add_job_change_options(*subcommand, command->job);
  add_source_options(*subcommand, command->sources);
  subcommand->add_flag("--without-input", command->without_input, "Loading of data takes no time");
  subcommand
      ->add_option("--trace", command->trace, "Write the replay as a trace for ui.perfetto.dev")
      ->type_name("FILE");
  add_report_option(*subcommand, command->report);
  subcommand->add_option("--format", command->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  subcommand->callback([command, &exit_code] { exit_code = print_replay(*command); });
}

}  // namespace tracecast
