#include "sim/replay/replay.hpp"

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/parallel/multi_rank_run.hpp"

namespace tracecast {
namespace {

using engine::Picoseconds;

constexpr std::int64_t kLongestNs = Picoseconds::most().count() / 1000;

Picoseconds picoseconds(std::int64_t ns) {
  if (ns < 0 || ns > kLongestNs)
    throw InputError("replay", std::to_string(ns) + " ns of work", "0 to 106 days");
  return Picoseconds(ns * 1000);
}

/// How long at least one of the spans lasts.
Picoseconds union_of(std::vector<std::pair<Picoseconds, Picoseconds>> spans) {
  std::sort(spans.begin(), spans.end());
  Picoseconds sum{}, covered{};
  for (const auto& [begin, end] : spans) {
    if (end <= covered) continue;
    sum += end - std::max(begin, covered);
    covered = end;
  }
  return sum;
}

Action action_of(ReplayWork work) {
  switch (work) {
    case ReplayWork::Kernel:
    case ReplayWork::Memset:
      return Action::Kernel;
    case ReplayWork::Copy:
      return Action::Copy;
    case ReplayWork::Call:
      return Action::Launch;
    case ReplayWork::Wait:
      return Action::Wait;
    case ReplayWork::Input:
      return Action::Input;
    case ReplayWork::HostWork:
      return Action::Op;
    case ReplayWork::Mark:
    case ReplayWork::Arrival:
      break;
  }
  return Action::Join;
}

/// Tasks keep their indices. No lanes: what waits for what is as recorded.
MultiRankProgram program_of(const ReplayProgram& recorded, const ReplayOptions& options) {
  MultiRankProgram program;
  program.reserve(recorded.tasks.size(), recorded.dependencies.size());
  for (const ReplayTask& task : recorded.tasks) {
    const bool skipped = options.without_input && task.work == ReplayWork::Input;
    program.add({.action = action_of(task.work), .actor = task.track},
                picoseconds(skipped ? 0 : task.duration_ns));
  }
  for (const ReplayDependency& d : recorded.dependencies) {
    program.after(MultiRankProgram::Task{d.before}, MultiRankProgram::Task{d.after},
                  picoseconds(d.lag_ns));
  }
  return program;
}

}  // namespace

ReplayRun replay(const ReplayProgram& program, const ReplayOptions& options) {
  ReplayRun run{MultiRankRun(program_of(program, options)).take_schedule(), {}, {}};
  for (const ReplayStep& step : program.steps)
    run.steps.push_back(run.schedule.end[step.end] - run.schedule.end[step.begin]);
  run.kernel_busy =
      kernel_busy(program, run.schedule, 0, static_cast<std::uint32_t>(program.tracks.size()));
  return run;
}

Picoseconds kernel_busy(const ReplayProgram& program, const engine::Schedule& schedule,
                        std::uint32_t first_track, std::uint32_t end_track) {
  std::vector<std::pair<Picoseconds, Picoseconds>> kernels;
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const ReplayTask& task = program.tasks[i];
    if (task.work == ReplayWork::Kernel && task.track >= first_track && task.track < end_track)
      kernels.emplace_back(schedule.start[i], schedule.end[i]);
  }
  return union_of(std::move(kernels));
}

std::vector<Picoseconds> kernel_busy_by_rank(const ReplayProgram& program,
                                             const engine::Schedule& schedule,
                                             const std::vector<std::uint32_t>& first_tracks) {
  std::vector<std::vector<std::pair<Picoseconds, Picoseconds>>> kernels(first_tracks.size());
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const ReplayTask& task = program.tasks[i];
    if (task.work != ReplayWork::Kernel) continue;
    const auto after = std::upper_bound(first_tracks.begin(), first_tracks.end(), task.track);
    kernels[static_cast<std::size_t>(after - first_tracks.begin()) - 1].emplace_back(
        schedule.start[i], schedule.end[i]);
  }
  std::vector<Picoseconds> busy;
  for (auto& of_rank : kernels) busy.push_back(union_of(std::move(of_rank)));
  return busy;
}

}  // namespace tracecast
