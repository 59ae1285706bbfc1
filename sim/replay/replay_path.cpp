#include "sim/replay/replay_path.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tracecast {
namespace {

using engine::Picoseconds;

constexpr std::uint32_t kNone = UINT32_MAX;

PathKind kind_of(ReplayWork work) {
  switch (work) {
    case ReplayWork::Kernel:
      return PathKind::Kernel;
    case ReplayWork::Copy:
      return PathKind::Copy;
    case ReplayWork::Memset:
      return PathKind::Memset;
    case ReplayWork::Call:
    case ReplayWork::Wait:
      return PathKind::Call;
    case ReplayWork::Input:
      return PathKind::Input;
    case ReplayWork::HostWork:
    case ReplayWork::Mark:
    case ReplayWork::Arrival:
      break;
  }
  return PathKind::HostWork;
}
PathKind kind_of(ReplayReason reason) {
  switch (reason) {
    case ReplayReason::Launch:
      return PathKind::Launch;
    case ReplayReason::Stream:
    case ReplayReason::Event:
    case ReplayReason::Collective:
      return PathKind::StreamGap;
    case ReplayReason::Wait:
    case ReplayReason::Queue:
      return PathKind::WaitReturn;
    case ReplayReason::Program:
    case ReplayReason::Handoff:
      break;
  }
  return PathKind::HostWork;
}

/// A task of the path and the lag before it.
struct Slice {
  std::uint32_t task = 0;
  std::uint32_t before = kNone;  ///< the task that released it
  Picoseconds lag{}, work{};     ///< cut at the beginning of the path
};

class PathFinder {
 public:
  PathFinder(const ReplayProgram& program, const ReplayRun& run,
             std::vector<std::uint32_t> first_tracks)
      : program_(program), schedule_(run.schedule), first_tracks_(std::move(first_tracks)) {}

  CriticalPath find() {
    CriticalPath path;
    walk();
    const std::vector<ReplayReason> reasons = reasons_of_lags();
    path.by_rank.resize(first_tracks_.size());
    for (const Slice& slice : slices_) {
      const ReplayTask& task = program_.tasks[slice.task];
      const PathKind kind = kind_of(task.work);
      add(path, kind, task.kernel_class, slice.work);
      add(path, kind_of(reasons[slice.task]), KernelClass::Other, slice.lag);
      if (is_on_gpu(task.work) || kind == PathKind::Call) add_item(kind, task.name, slice.work);
      path.length += slice.work + slice.lag;
      path.by_rank[rank_of(slice.task)] += slice.work + slice.lag;
    }
    for (const auto& [key, item] : items_) path.items.push_back(item);
    finish(path.shares, path.length);
    finish(path.items, path.length);
    return path;
  }

 private:
  /// When the last rank has begun its first step.
  [[nodiscard]] Picoseconds path_begin() const {
    std::map<std::size_t, Picoseconds> first;  // by rank
    for (const ReplayStep& step : program_.steps) {
      const Picoseconds begin = schedule_.end[step.begin];
      const auto [at, is_new] = first.emplace(rank_of(step.begin), begin);
      if (!is_new) at->second = std::min(at->second, begin);
    }
    Picoseconds last{};
    for (const auto& [rank, begin] : first) last = std::max(last, begin);
    return last;
  }
  [[nodiscard]] std::size_t rank_of(std::uint32_t task) const {
    return static_cast<std::size_t>(std::upper_bound(first_tracks_.begin(), first_tracks_.end(),
                                                     program_.tasks[task].track) -
                                    first_tracks_.begin()) -
           1;
  }
  /// The last to end of GPU work and ends of steps, else of all tasks; of equals the first.
  [[nodiscard]] std::uint32_t last_task() const {
    std::uint32_t last = kNone;
    const auto consider = [&](std::uint32_t task) {
      if (last == kNone || schedule_.end[task] > schedule_.end[last]) last = task;
    };
    for (std::uint32_t i = 0; i < program_.tasks.size(); ++i) {
      if (is_on_gpu(program_.tasks[i].work)) consider(i);
    }
    for (const ReplayStep& step : program_.steps) consider(step.end);
    for (std::uint32_t i = 0; last == kNone && i < program_.tasks.size(); ++i) {
      if (schedule_.end[i] == schedule_.makespan) last = i;
    }
    return last;
  }

  void walk() {
    const Picoseconds begin = path_begin();
    std::uint32_t task = last_task();
    while (task != kNone && schedule_.end[task] > begin) {
      const auto release = schedule_.find_release(engine::TaskId{task});
      const std::uint32_t before = release ? release->task.index : kNone;
      const Picoseconds start = std::max(schedule_.start[task], begin);
      const Picoseconds freed = before == kNone ? begin : std::max(schedule_.end[before], begin);
      slices_.push_back(
          {task, before, start - std::min(freed, start), schedule_.end[task] - start});
      task = before;
    }
  }

  /// By task: why it waited for the one before it in the path.
  [[nodiscard]] std::vector<ReplayReason> reasons_of_lags() const {
    std::vector<ReplayReason> reasons(program_.tasks.size(), ReplayReason::Program);
    std::vector<std::uint32_t> before(program_.tasks.size(), kNone);
    std::vector<std::int64_t> lag(program_.tasks.size(), -1);
    for (const Slice& slice : slices_) before[slice.task] = slice.before;
    for (const ReplayDependency& d : program_.dependencies) {
      if (before[d.after] != d.before || d.lag_ns <= lag[d.after]) continue;
      reasons[d.after] = d.reason;
      lag[d.after] = d.lag_ns;
    }
    return reasons;
  }

  static void add(CriticalPath& path, PathKind kind, KernelClass kernel_class, Picoseconds time) {
    if (time == Picoseconds{}) return;
    if (kind != PathKind::Kernel) kernel_class = KernelClass::Other;
    auto at = std::find_if(path.shares.begin(), path.shares.end(), [&](const PathShare& s) {
      return s.kind == kind && s.kernel_class == kernel_class;
    });
    if (at == path.shares.end())
      at = path.shares.insert(path.shares.end(), {kind, kernel_class, 0, {}, 0});
    ++at->count;
    at->time += time;
  }
  void add_item(PathKind kind, std::uint32_t name, Picoseconds time) {
    if (time == Picoseconds{}) return;
    PathItem& item = items_[{kind, name}];
    item.name = name;
    item.kind = kind;
    ++item.count;
    item.time += time;
  }
  template <class Entry>
  static void finish(std::vector<Entry>& list, Picoseconds length) {
    for (Entry& entry : list)
      entry.share = static_cast<double>(entry.time.count()) / static_cast<double>(length.count());
    std::stable_sort(list.begin(), list.end(),
                     [](const Entry& a, const Entry& b) { return a.time > b.time; });
  }

  const ReplayProgram& program_;
  const engine::Schedule& schedule_;
  std::vector<std::uint32_t> first_tracks_;  ///< by rank
  std::vector<Slice> slices_;
  std::map<std::pair<PathKind, std::uint32_t>, PathItem> items_;
};

}  // namespace

std::string_view to_string(PathKind kind) {
  switch (kind) {
    case PathKind::Kernel:
      return "kernel";
    case PathKind::Copy:
      return "copy";
    case PathKind::Memset:
      return "memset";
    case PathKind::Call:
      return "call";
    case PathKind::HostWork:
      return "host_work";
    case PathKind::Input:
      return "input";
    case PathKind::Launch:
      return "launch_latency";
    case PathKind::StreamGap:
      return "stream_gap";
    case PathKind::WaitReturn:
      return "wait_return";
  }
  return "unknown";
}

CriticalPath critical_path(const ReplayProgram& program, const ReplayRun& run,
                           std::vector<std::uint32_t> first_track_of_rank) {
  return PathFinder(program, run, std::move(first_track_of_rank)).find();
}

}  // namespace tracecast
