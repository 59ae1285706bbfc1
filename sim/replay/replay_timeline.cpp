#include <algorithm>

#include "sim/replay/replay.hpp"

namespace tracecast {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

SliceKind slice_kind(ReplayWork work) {
  switch (work) {
    case ReplayWork::Kernel:
      return SliceKind::Kernel;
    case ReplayWork::Copy:
      return SliceKind::Copy;
    case ReplayWork::Memset:
      return SliceKind::Memset;
    case ReplayWork::Call:
    case ReplayWork::Wait:
      return SliceKind::Call;
    case ReplayWork::HostWork:
      return SliceKind::HostWork;
    case ReplayWork::Input:
    case ReplayWork::Mark:
    case ReplayWork::Arrival:
      break;
  }
  return SliceKind::Mark;
}

/// Draws one slice per task that takes time or is GPU work or a call; a wait lengthens its call.
class Drawer {
 public:
  Drawer(const ReplayProgram& program, const ReplayRun& run) : program_(program), run_(run) {}

  Timeline draw(const std::string& gpu) {
    timeline_.gpu = gpu;
    timeline_.names = program_.names;
    host_work_ = add_name("host work");
    load_ = add_name("enumerate(DataLoader)");
    for (const ReplayTrack& track : program_.tracks) {
      timeline_.tracks.push_back(
          {track.is_stream ? TimelineTrack::Kind::Stream : TimelineTrack::Kind::HostThread,
           track.device, track.number, track.is_stream ? "" : "thread " + track.name});
    }
    slice_of_.assign(program_.tasks.size(), kNone);
    track_end_.assign(program_.tracks.size(), 0);
    is_room_.assign(program_.tasks.size(), false);
    for (const ReplayQueue& queue : program_.queues) {
      for (const ReplayLaunch& launch : queue.launches) is_room_[launch.room] = true;
    }
    for (std::uint32_t i = 0; i < program_.tasks.size(); ++i) draw_task(i);
    for (const ReplayStep& step : program_.steps) {
      timeline_.slices.push_back({SliceKind::Mark, KernelClass::Other,
                                  program_.tasks[step.begin].track, step.name, 0, end(step.begin),
                                  end(step.end) - end(step.begin), 0});
    }
    for (const ReplayDependency& d : program_.dependencies) {
      if (d.reason == ReplayReason::Launch) draw_launch(d);
    }
    return std::move(timeline_);
  }

 private:
  [[nodiscard]] std::int64_t end(std::uint32_t task) const {
    return run_.schedule.end[task].count();
  }
  std::uint32_t add_name(const char* text) {
    timeline_.names.emplace_back(text);
    return static_cast<std::uint32_t>(timeline_.names.size() - 1);
  }

  void draw_task(std::uint32_t i) {
    const ReplayTask& task = program_.tasks[i];
    std::int64_t begin = run_.schedule.start[i].count();
    if (task.work == ReplayWork::Wait) {
      // The call it ends stands right before it.
      TimelineSlice& call = timeline_.slices[slice_of_[i - 1]];
      call.duration_ps = end(i) - call.begin_ps;
      slice_of_[i] = slice_of_[i - 1];
      return;
    }
    const bool is_filler = task.work == ReplayWork::HostWork || task.work == ReplayWork::Input;
    if (task.work == ReplayWork::Mark || task.work == ReplayWork::Arrival ||
        (is_filler && end(i) == begin))
      return;
    if (is_filler && program_.tracks[task.track].is_stream) return;
    std::uint32_t name = task.name;
    if (task.work == ReplayWork::HostWork) name = host_work_;
    if (task.work == ReplayWork::Input) name = load_;
    slice_of_[i] = static_cast<std::uint32_t>(timeline_.slices.size());
    if (is_on_gpu(task.work)) {
      if (begin < track_end_[task.track]) timeline_.tracks[task.track].runs_side_by_side = true;
      track_end_[task.track] = std::max(track_end_[task.track], end(i));
    }
    const bool is_call = task.work == ReplayWork::Call;
    // A launch is called before there is room for it: when what stands before that task has ended.
    if (is_call && i > 1 && is_room_[i - 1]) begin = std::min(begin, end(i - 2));
    timeline_.slices.push_back({slice_kind(task.work), task.kernel_class, task.track, name,
                                is_call ? ++calls_ : 0, begin, end(i) - begin, task.bytes});
  }

  /// The launch waits for the call itself, or for what stands right before the call.
  void draw_launch(const ReplayDependency& d) {
    std::uint32_t call = d.before;
    while (call < program_.tasks.size() && program_.tasks[call].work != ReplayWork::Call &&
           call < d.before + 2)
      ++call;
    if (call >= program_.tasks.size() || program_.tasks[call].work != ReplayWork::Call) return;
    const std::uint32_t from = slice_of_[call], to = slice_of_[d.after];
    if (from == kNone || to == kNone) return;
    timeline_.slices[to].correlation = timeline_.slices[from].correlation;
    timeline_.flows.push_back({from, to});
  }

  const ReplayProgram& program_;
  const ReplayRun& run_;
  Timeline timeline_;
  std::vector<std::uint32_t> slice_of_;
  std::vector<std::int64_t> track_end_;
  std::vector<bool> is_room_;  ///< by task: of a launch
  std::uint32_t host_work_ = 0, load_ = 0, calls_ = 0;
};

}  // namespace

Timeline timeline_of(const ReplayProgram& program, const ReplayRun& run, const std::string& gpu) {
  return Drawer(program, run).draw(gpu);
}

}  // namespace tracecast
