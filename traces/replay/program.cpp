#include "traces/replay/program.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "sim/base/error.hpp"
#include "traces/replay/gpu_work.hpp"
#include "traces/replay/host_threads.hpp"
#include "traces/replay/launch_queue.hpp"
#include "traces/replay/step_window.hpp"
#include "traces/replay/waits.hpp"

namespace tracecast::traces {
namespace {

constexpr std::uint32_t kNone = GpuWorks::kNone;
/// A begin this much later than anything recorded explains is counted.
constexpr std::int64_t kLateNs = 20'000;

std::int64_t median(std::vector<std::int64_t>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Everything within half the clock of the first record: differences cannot overflow.
std::int64_t first_moment(const Trace& trace, const GpuWorks& works) {
  constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max() / 4;
  std::int64_t first = kLongest, last = -kLongest;
  const auto include = [&](const Span& span) {
    first = std::min(first, span.begin_ns);
    if (span.begin_ns > kLongest || span.begin_ns < -kLongest || span.duration_ns > kLongest ||
        span.duration_ns < 0)
      throw InputError(trace.source, "a record at " + std::to_string(span.begin_ns) + " ns",
                       "times and durations that a replay can add up");
    last = std::max(last, span.end_ns());
  };
  for (const GpuWork& work : works.all) include(work.span);
  for (const Span& span : trace.calls.span) include(span);
  for (std::size_t i = 0; i < trace.marks.size(); ++i) {
    if (!trace.marks.on_gpu[i] && trace[trace.marks.name[i]].starts_with("ProfilerStep"))
      include(trace.marks.span[i]);
  }
  return last < first ? 0 : first;
}

/// As PyTorch's profiler writes it.
std::string copy_name(CopyKind kind, HostMemory memory) {
  std::string host = "Unknown";
  if (memory == HostMemory::Pageable) host = "Pageable";
  if (memory == HostMemory::Pinned) host = "Pinned";
  if (memory == HostMemory::Managed) host = "Managed";
  switch (kind) {
    case CopyKind::HostToDevice:
      return "Memcpy HtoD (" + host + " -> Device)";
    case CopyKind::DeviceToHost:
      return "Memcpy DtoH (Device -> " + host + ")";
    case CopyKind::DeviceToDevice:
      return "Memcpy DtoD (Device -> Device)";
    case CopyKind::PeerToPeer:
      return "Memcpy PtoP (Device -> Device)";
    case CopyKind::HostToHost:
      return "Memcpy HtoH (" + host + " -> " + host + ")";
    case CopyKind::Unknown:
      break;
  }
  return "Memcpy";
}

class ProgramBuilder {
 public:
  ProgramBuilder(const Trace& trace, const KernelNames& names, std::uint32_t launch_queue)
      : trace_(trace),
        works_(trace, names),
        begin_ns_(first_moment(trace, works_)),
        waits_(find_waits(trace, works_, build_.account)),
        host_(find_host_threads(trace, threads_that_launch(), begin_ns_)),
        queues_(find_launch_queues(trace, works_, host_, launch_queue)),
        window_(host_) {
    build_.account.overlapping = works_.overlapping;
    build_.account.handoffs = host_.handoffs;
  }

  ReplayBuild build() {
    build_.begin_ns = begin_ns_;
    add_tracks();
    add_gpu_tasks();
    add_host_tasks();
    learn_usual_lags();
    for (std::uint32_t i = 0; i < works_.all.size(); ++i) release(i);
    add_queues();
    join_rounds();
    return std::move(build_);
  }

 private:
  /// One reason for GPU work to begin.
  struct Candidate {
    std::uint32_t task = 0;
    std::int64_t at_ns = 0;  ///< as recorded
    ReplayReason reason{};
  };
  /// Tasks of a call on its thread.
  struct CallTasks {
    std::uint32_t reached = kNone;             ///< ends when the host begins the call
    std::uint32_t done = kNone;                ///< ends when the call returns
    std::int64_t reached_ns = 0, done_ns = 0;  ///< as recorded
    bool waits = false;
  };
  /// A thread's first and last task in the window of steps.
  struct ThreadRound {
    std::uint32_t first = kNone, last = kNone;
    std::int64_t first_ns = 0, last_ns = 0;  ///< begin and end of their events, as recorded
    bool is_handed = false;  ///< the first one follows what another thread does in the window
  };
  static constexpr std::int64_t kNoLaunch = -1;

  [[nodiscard]] std::vector<bool> threads_that_launch() const {
    std::vector<bool> launch(trace_.threads.size(), false);
    for (const GpuWork& work : works_.all) {
      if (work.work == ReplayWork::Kernel && work.call != kNone)
        launch[trace_.calls.thread[work.call].index] = true;
    }
    return launch;
  }

  std::uint32_t name(std::string_view text) {
    const auto [at, is_new] =
        names_.emplace(std::string(text), static_cast<std::uint32_t>(build_.program.names.size()));
    if (is_new) build_.program.names.emplace_back(text);
    return at->second;
  }
  std::uint32_t add_task(ReplayTask task) {
    build_.program.tasks.push_back(task);
    build_.program.round.step.push_back(step_);
    return static_cast<std::uint32_t>(build_.program.tasks.size() - 1);
  }
  void add_dependency(std::uint32_t before, std::uint32_t after, std::int64_t lag_ns,
                      ReplayReason reason) {
    build_.program.dependencies.push_back(
        {before, after, std::max<std::int64_t>(lag_ns, 0), reason});
  }

  void add_tracks() {
    for (const Stream& stream : trace_.streams)
      build_.program.tracks.push_back({true, stream.device, stream.number, ""});
    for (std::size_t i = 0; i < trace_.threads.size(); ++i)
      build_.program.tracks.push_back(
          {false, 0, static_cast<std::int64_t>(i), trace_.threads[i].thread});
  }

  void add_gpu_tasks() {
    for (const GpuWork& work : works_.all) {
      std::uint32_t text = 0;
      if (work.work == ReplayWork::Kernel) text = name(trace_[work.name]);
      if (work.work == ReplayWork::Copy) text = name(copy_name(work.copy, work.memory));
      if (work.work == ReplayWork::Memset) text = name("Memset (Device)");
      build_.records.push_back(work.record);
      step_ = step_of(work);
      add_task({work.work, work.kernel_class, work.stream.index, text, work.span.duration_ns,
                work.bytes});
    }
  }

  [[nodiscard]] std::uint32_t step_of(const GpuWork& work) const {
    if (work.call == kNone) return window_.step_at(work.span.begin_ns);
    return window_.step_at(trace_.calls.span[host_.outer[work.call]].begin_ns);
  }
  [[nodiscard]] std::uint32_t step_of(const HostEvent& event) const {
    if (event.kind != HostEvent::Kind::Call) return window_.step_at(event.span.begin_ns);
    return window_.step_at(trace_.calls.span[event.index].begin_ns);
  }
  [[nodiscard]] bool is_in_round(std::pair<std::uint32_t, std::uint32_t> event) const {
    return step_of(host_.threads[event.first][event.second]) != StepWindow::kNoStep;
  }
  [[nodiscard]] bool is_in_round(std::uint32_t task) const {
    return build_.program.round.step[task] != StepWindow::kNoStep;
  }

  /// What a call of this name takes when it waits for nothing: the least that any did.
  [[nodiscard]] std::vector<std::int64_t> least_by_call_name() const {
    std::vector<std::int64_t> least(trace_.names.size(), std::numeric_limits<std::int64_t>::max());
    for (std::size_t i = 0; i < trace_.calls.size(); ++i) {
      std::int64_t& known = least[trace_.calls.name[i].index];
      known = std::min(known, trace_.calls.span[i].duration_ns);
    }
    return least;
  }

  /// For how long the call of a launch was blocked; kNoLaunch of other calls.
  [[nodiscard]] std::vector<std::int64_t> blocked_by_call() const {
    std::vector<std::int64_t> blocked(trace_.calls.size(), kNoLaunch);
    for (const LaunchQueue& queue : queues_) {
      for (const QueuedLaunch& launch : queue.launches) blocked[launch.call] = launch.blocked_ns;
    }
    return blocked;
  }

  void add_host_tasks() {
    calls_.resize(trace_.calls.size());
    const std::vector<std::int64_t> least = least_by_call_name();
    const std::vector<std::int64_t> blocked = blocked_by_call();
    std::map<std::uint32_t, std::uint32_t> step_begin;  // by mark
    std::vector<std::vector<std::uint32_t>> done(host_.threads.size());
    std::vector<std::pair<std::uint32_t, const HostEvent*>> handoffs;  // (task, event)
    for (std::uint32_t thread = 0; thread < host_.threads.size(); ++thread) {
      std::uint32_t last = kNone;
      ThreadRound round;
      const auto track = static_cast<std::uint32_t>(trace_.streams.size() + thread);
      const auto follow = [&](ReplayTask task) {
        const std::uint32_t added = add_task(task);
        if (last != kNone) add_dependency(last, added, 0, ReplayReason::Program);
        return last = added;
      };
      for (const HostEvent& event : host_.threads[thread]) {
        const std::uint32_t step = step_of(event);
        const bool begins_round = step != StepWindow::kNoStep && round.first == kNone;
        round.is_handed |= begins_round && event.after && is_in_round(*event.after);
        // What leads to the round's first event from the last one is reported by the join of
        // rounds.
        step_ = begins_round && !round.is_handed ? StepWindow::kNoStep : step;
        const std::uint32_t first =
            follow({ReplayWork::HostWork, KernelClass::Other, track, 0, event.host_ns, 0});
        if (event.after) handoffs.emplace_back(first, &event);
        if (event.input_ns > 0)
          follow({ReplayWork::Input, KernelClass::Other, track, 0, event.input_ns, 0});
        step_ = step;
        if (begins_round) {
          round.first =
              round.is_handed ? first : static_cast<std::uint32_t>(build_.program.tasks.size());
          round.first_ns = event.span.begin_ns;
        }
        if (event.kind == HostEvent::Kind::Call) {
          const NameId call_name = trace_.calls.name[event.index];
          CallTasks& call = calls_[event.index];
          const HostWait* wait = wait_of(event.index);
          std::int64_t own_ns = event.span.duration_ns;
          if (blocked[event.index] != kNoLaunch) {
            if (!wait)
              own_ns = std::min(own_ns,
                                trace_.calls.span[event.index].duration_ns - blocked[event.index]);
            follow({ReplayWork::HostWork, KernelClass::Other, track, 0, 0, 0});
          }
          call.reached = last;
          call.reached_ns = event.span.end_ns() - own_ns;
          call.done_ns = event.span.end_ns();
          const std::uint32_t task = follow(
              {ReplayWork::Call, KernelClass::Other, track, name(trace_[call_name]), own_ns, 0});
          call.waits = wait != nullptr;
          if (wait) add_wait(*wait, event, least[call_name.index], task, follow);
          call.done = last;
        } else {
          const std::uint32_t text = name(trace_[trace_.marks.name[event.index]]);
          const std::uint32_t mark =
              follow({ReplayWork::Mark, KernelClass::Other, track, text, 0, 0});
          if (event.kind == HostEvent::Kind::StepBegin) {
            step_begin[event.index] = mark;
          } else if (const auto at = step_begin.find(event.index); at != step_begin.end()) {
            build_.program.steps.push_back({text, at->second, mark});
          }
        }
        done[thread].push_back(last);
        if (step == StepWindow::kNoStep) continue;
        round.last = last;
        round.last_ns = event.span.end_ns();
      }
      rounds_.push_back(round);
    }
    step_ = StepWindow::kNoStep;
    for (const auto& [task, event] : handoffs)
      add_dependency(done[event->after->first][event->after->second], task, 0,
                     ReplayReason::Handoff);
  }

  [[nodiscard]] const HostWait* wait_of(std::uint32_t call) const {
    const auto at =
        std::lower_bound(waits_.host.begin(), waits_.host.end(), call,
                         [](const HostWait& wait, std::uint32_t c) { return wait.call < c; });
    return at != waits_.host.end() && at->call == call ? &*at : nullptr;
  }

  /// The call takes its own time; it returns a lag after what it waits for, when that ends later
  /// than it begins. One that did not wait would return its own time later.
  template <class Follow>
  void add_wait(const HostWait& wait, const HostEvent& event, std::int64_t least_ns,
                std::uint32_t call_task, const Follow& follow) {
    const Span& span = event.span;
    std::int64_t last_end = std::numeric_limits<std::int64_t>::min();
    for (const std::uint32_t work : wait.awaited)
      last_end = std::max(last_end, works_.all[work].span.end_ns());
    const bool waited = last_end > span.begin_ns;
    const std::int64_t lag = std::max<std::int64_t>(span.end_ns() - last_end, 0);
    ReplayTask& call = build_.program.tasks[call_task];
    if (waited) call.duration_ns = wait.moves_data ? lag : std::min(least_ns, lag);
    const ReplayTask done{ReplayWork::Wait, KernelClass::Other, call.track, call.name, 0, 0};
    const std::uint32_t task = follow(done);
    for (const std::uint32_t work : wait.awaited)
      add_dependency(work, task, waited ? lag : span.duration_ns, ReplayReason::Wait);
  }

  /// Why a piece of GPU work may have begun when it did.
  void find_candidates(std::uint32_t index, std::vector<Candidate>& candidates) const {
    candidates.clear();
    const GpuWork& work = works_.all[index];
    if (work.call != kNone) {
      const CallTasks& call = calls_[host_.outer[work.call]];
      // A call that takes this long does something else first: loads code, waits for room in the
      // queue.
      const bool at_end = call.done_ns - call.reached_ns > kLateNs && !call.waits &&
                          call.done_ns <= work.span.begin_ns;
      if (call.reached != kNone) {
        candidates.push_back({at_end ? call.done : call.reached,
                              at_end ? call.done_ns : call.reached_ns, ReplayReason::Launch});
      }
    }
    if (work.before != kNone)
      candidates.push_back(
          {work.before, works_.all[work.before].span.end_ns(), ReplayReason::Stream});
    auto at = std::lower_bound(
        waits_.streams.begin(), waits_.streams.end(), index,
        [](const StreamWait& wait, std::uint32_t waiter) { return wait.waiter < waiter; });
    for (; at != waits_.streams.end() && at->waiter == index; ++at)
      candidates.push_back(
          {at->awaited, works_.all[at->awaited].span.end_ns(), ReplayReason::Event});
  }

  [[nodiscard]] std::int64_t usual(const GpuWork& work, ReplayReason reason) const {
    return usual_[static_cast<std::size_t>(work.work)][static_cast<std::size_t>(reason)];
  }
  [[nodiscard]] const Candidate& binding(const GpuWork& work,
                                         const std::vector<Candidate>& candidates) const {
    return *std::max_element(
        candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
          return a.at_ns + usual(work, a.reason) < b.at_ns + usual(work, b.reason);
        });
  }

  void learn_usual_lags() {
    std::array<std::array<std::vector<std::int64_t>, 3>, 3> lags;
    std::vector<Candidate> candidates;
    for (std::uint32_t i = 0; i < works_.all.size(); ++i) {
      const GpuWork& work = works_.all[i];
      find_candidates(i, candidates);
      if (candidates.empty()) continue;
      const Candidate& cause = binding(work, candidates);
      lags[static_cast<std::size_t>(work.work)][static_cast<std::size_t>(cause.reason)].push_back(
          std::max<std::int64_t>(work.span.begin_ns - cause.at_ns, 0));
    }
    for (std::size_t kind = 0; kind < lags.size(); ++kind) {
      for (std::size_t reason = 0; reason < lags[kind].size(); ++reason)
        usual_[kind][reason] = median(lags[kind][reason]);
    }
  }

  /// What the work waits for, the last one with the recorded lag.
  void release(std::uint32_t index) {
    const GpuWork& work = works_.all[index];
    std::vector<Candidate> candidates;
    find_candidates(index, candidates);
    if (work.call == kNone) ++build_.account.unlaunched;
    if (candidates.empty()) {
      // Nothing recorded comes before it: it waits as long as the recording had run.
      const std::uint32_t start =
          add_task({ReplayWork::HostWork, KernelClass::Other, work.stream.index, 0,
                    work.span.begin_ns - begin_ns_, 0});
      return add_dependency(start, index, 0, ReplayReason::Launch);
    }
    const Candidate& cause = binding(work, candidates);
    // What begins during a long call waits for the host's own work in there.
    const bool in_call =
        work.call != kNone && work.span.begin_ns <= trace_.calls.span[work.call].end_ns();
    const std::int64_t late = work.span.begin_ns - cause.at_ns - usual(work, cause.reason);
    if (late > kLateNs && !in_call) {
      ++build_.account.late;
      build_.account.late_ns += late;
    }
    for (const Candidate& c : candidates) {
      std::int64_t lag = work.span.begin_ns - c.at_ns;
      if (c.reason == ReplayReason::Launch && lag < 0) ++build_.account.early;
      if (&c != &cause) lag = std::min(lag, usual(work, c.reason));
      add_dependency(c.task, index, lag, c.reason);
    }
  }

  /// What launches wait for before they begin, and their order for those of later rounds.
  void add_queues() {
    for (const LaunchQueue& queue : queues_) {
      ReplayQueue& added = build_.program.queues.emplace_back();
      added.depth = queue.depth;
      for (const QueuedLaunch& launch : queue.launches) {
        const CallTasks& call = calls_[launch.call];
        const bool is_blocked = launch.blocked_ns > 0 && !call.waits;
        std::int64_t lag = 0;
        if (is_blocked) {
          const QueuedLaunch& oldest = queue.launches[*launch.room];
          lag = call.reached_ns - works_.all[oldest.work].span.end_ns();
          ++build_.account.queue_waits;
          build_.account.queue_wait_ns += launch.blocked_ns;
        }
        added.launches.push_back({call.reached, launch.work, lag});
        if (launch.room)
          add_dependency(queue.launches[*launch.room].work, call.reached, lag, ReplayReason::Queue);
      }
    }
  }

  /// What the first tasks of a round wait for in the one before: threads and streams go on where
  /// they were, and who waited for work of before the steps waits for the last one of its stream.
  void join_rounds() {
    std::vector<ReplayDependency>& joins = build_.program.round.on_last_round;
    for (const ThreadRound& round : rounds_) {
      if (round.first == kNone) continue;
      const std::int64_t lag = round.is_handed ? 0 : window_.wrap_ns(round.last_ns, round.first_ns);
      joins.push_back({round.last, round.first, lag, ReplayReason::Program});
    }
    std::vector<std::uint32_t> last(trace_.streams.size(), kNone);  // work of the window to end
    for (std::uint32_t i = 0; i < works_.all.size(); ++i) {
      if (!is_in_round(i)) continue;
      std::uint32_t& work = last[works_.all[i].stream.index];
      if (work == kNone || works_.all[i].span.end_ns() >= works_.all[work].span.end_ns()) work = i;
    }
    std::vector<bool> follows(works_.all.size(), false);
    for (const ReplayDependency& d : build_.program.dependencies) {
      if (!is_in_round(d.after) || d.before >= works_.all.size()) continue;
      if (is_in_round(d.before)) {
        if (d.reason == ReplayReason::Stream) follows[d.after] = true;
        continue;
      }
      const std::uint32_t work = last[works_.all[d.before].stream.index];
      if (work != kNone && (d.reason == ReplayReason::Event || d.reason == ReplayReason::Wait))
        joins.push_back({work, d.after, d.lag_ns, d.reason});
    }
    for (std::uint32_t i = 0; i < works_.all.size(); ++i) {
      if (!is_in_round(i) || follows[i]) continue;
      const GpuWork& work = works_.all[i];
      joins.push_back(
          {last[work.stream.index], i, usual(work, ReplayReason::Stream), ReplayReason::Stream});
    }
  }

  const Trace& trace_;
  ReplayBuild build_;
  GpuWorks works_;
  std::int64_t begin_ns_;
  Waits waits_;
  HostThreads host_;
  std::vector<LaunchQueue> queues_;
  StepWindow window_;
  std::uint32_t step_ = StepWindow::kNoStep;  ///< of the tasks that are added
  std::vector<ThreadRound> rounds_;           ///< by thread
  std::map<std::string, std::uint32_t, std::less<>> names_{{"", 0}};
  std::vector<CallTasks> calls_;
  std::int64_t usual_[3][3] = {};  ///< by ReplayWork of the GPU and ReplayReason
};

}  // namespace

ReplayBuild build_replay_program(const Trace& trace, const KernelNames& names,
                                 std::uint32_t launch_queue) {
  return ProgramBuilder(trace, names, launch_queue).build();
}

}  // namespace tracecast::traces
