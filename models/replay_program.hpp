#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/kernel.hpp"
#include "models/launch_queue.hpp"

/// A recorded job as work to be done again: how long each piece takes and what it waits for. When
/// anything ran is not in here, so nothing but the dependencies can put it back in place. Readers
/// of recordings make it (traces/replay/program.hpp); the simulator runs it
/// (sim/replay/replay.hpp).
namespace tracecast {

enum class ReplayWork : std::uint8_t {
  Kernel,
  Copy,
  Memset,
  Call,      ///< of the runtime or driver, by the host
  HostWork,  ///< between two calls: the framework and the program
  Input,     ///< between two calls: loading the next batch
  Wait,      ///< the end of a call that waits for the GPU; takes no time of its own
  Mark,      ///< begin or end of a step; takes no time
  Arrival,   ///< a collective's kernel begins and waits for the other ranks; takes no time
};
[[nodiscard]] inline bool is_on_gpu(ReplayWork work) { return work <= ReplayWork::Memset; }

/// Where work runs: a stream of a GPU or a thread of the host.
struct ReplayTrack {
  bool is_stream = false;
  std::int64_t device = 0, number = 0;  ///< of a stream; of a thread, its place among the threads
  std::string name;                     ///< of a thread, as recorded
  friend bool operator==(const ReplayTrack&, const ReplayTrack&) = default;
};

struct ReplayTask {
  ReplayWork work{};
  KernelClass kernel_class{};  ///< of kernels
  std::uint32_t track = 0;     ///< index into ReplayProgram::tracks
  std::uint32_t name = 0;      ///< index into ReplayProgram::names
  std::int64_t duration_ns = 0;
  std::uint64_t bytes = 0;  ///< of copies and memsets; 0 = not recorded
  friend bool operator==(const ReplayTask&, const ReplayTask&) = default;
};

enum class ReplayReason : std::uint8_t {
  Launch,   ///< GPU work begins after the host reached the launching call; the lag is the launch
            ///< latency
  Stream,   ///< work in one stream runs in order; the lag is what lies between two pieces of work
  Event,    ///< a stream waits for an event of another stream
  Wait,     ///< the host waits for GPU work; the lag is what the call takes to return
  Program,  ///< one thread does one thing after the other
  Handoff,  ///< a thread goes on when another one has done its part (backward pass)
  Collective,  ///< data moves when the last rank has arrived
  Queue,  ///< a launch waits for room in the launch queue; the lag is what the host takes to see it
};

/// `after` begins no earlier than `lag_ns` after `before` ends.
struct ReplayDependency {
  std::uint32_t before = 0, after = 0;  ///< indices into ReplayProgram::tasks
  std::int64_t lag_ns = 0;
  ReplayReason reason{};
  friend bool operator==(const ReplayDependency&, const ReplayDependency&) = default;
};

/// A step of the program, between two marks.
struct ReplayStep {
  std::uint32_t name = 0;
  std::uint32_t begin = 0, end = 0;  ///< tasks
  friend bool operator==(const ReplayStep&, const ReplayStep&) = default;
};

/// A call that puts GPU work in the launch queue.
struct ReplayLaunch {
  std::uint32_t room = 0;   ///< task without time, before the call: there is room
  std::uint32_t work = 0;   ///< task whose end makes room again; of several the last to end
  std::int64_t lag_ns = 0;  ///< from the end of the work that makes room for this launch
  friend bool operator==(const ReplayLaunch&, const ReplayLaunch&) = default;
};
/// Launches of one context, in order: the one of index i waits for the work of i - depth. Of the
/// recorded ones the program's dependencies say so (ReplayReason::Queue).
struct ReplayQueue {
  std::uint32_t depth = kLaunchQueue;
  std::vector<ReplayLaunch> launches;
  friend bool operator==(const ReplayQueue&, const ReplayQueue&) = default;
};

/// What happens again when the recorded steps are done again: a round.
struct ReplayRound {
  static constexpr std::uint32_t kNoStep = UINT32_MAX;
  std::vector<std::uint32_t>
      step;  ///< by task: index of the step it is of, or kNoStep; empty: no step is marked
  /// Of a round (`after`) on the round before it (`before`). Dependencies within a round are those
  /// of the recorded one.
  std::vector<ReplayDependency> on_last_round;
  friend bool operator==(const ReplayRound&, const ReplayRound&) = default;
};

struct ReplayProgram {
  std::vector<std::string> names{""};
  std::vector<ReplayTrack> tracks;
  std::vector<ReplayTask> tasks;
  std::vector<ReplayDependency> dependencies;
  std::vector<ReplayStep> steps;
  std::vector<ReplayQueue> queues;
  ReplayRound round;
  friend bool operator==(const ReplayProgram&, const ReplayProgram&) = default;
};

}  // namespace tracecast
