#pragma once
#include <cstdint>
#include <vector>

#include "models/replay_program.hpp"
#include "traces/kernel_names/kernel_names.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// What was found, inferred and not understood while the dependencies of a recording were rebuilt.
struct ReplayAccount {
  std::uint64_t unlaunched = 0;  ///< GPU work whose launching call is not recorded
  std::uint64_t early = 0;       ///< GPU work that begins before its launch, by two clocks
  std::uint64_t overlapping =
      0;  ///< work beside other work of its own stream, which it does not wait for
  std::uint64_t event_waits = 0;     ///< waits of streams, from records of the profiler
  std::uint64_t inferred_waits = 0;  ///< the same, from the order of calls alone
  std::uint64_t refuted_waits = 0;   ///< awaited work ends after what was to wait for it: dropped
  std::uint64_t host_waits = 0;      ///< calls that wait for GPU work
  std::uint64_t queue_waits = 0;     ///< launches that found the launch queue full
  std::int64_t queue_wait_ns = 0;    ///< which blocked them for so long in all
  std::uint64_t handoffs = 0;        ///< from thread to thread
  std::uint64_t late = 0;            ///< GPU work that begins later than anything recorded explains
  std::int64_t late_ns = 0;          ///< by so much in all, beyond the usual latency
};

struct ReplayBuild {
  ReplayProgram program;
  ReplayAccount account;
  /// Of the program's first tasks, which are its GPU work: index into the trace's kernels, copies
  /// or memsets, by the task's kind.
  std::vector<std::uint32_t> records;
  std::int64_t begin_ns = 0;  ///< of the recording: where the program's first tasks begin
};

/// Rebuilds what waited for what in a recording of one process.
///
/// GPU work waits for its launch (the call of the same correlation), for the work before it in its
/// stream and for the events that its stream was told to wait for. The last of these to be
/// satisfied is what it began for: the time from there to its begin is that dependency's lag. The
/// others get the usual lag of their kind (the median over work that did begin for a dependency of
/// this kind), or less where less was left. A host thread does one call after the other with its
/// own work in between. Calls that synchronise, and copies that hold the host, end a lag after the
/// GPU work they wait for. Threads that launch kernels take turns, as a framework's forward and
/// backward threads do: in a gap that holds calls of another one the thread waited for the last of
/// these. Collective kernels keep their recorded time, waiting for other ranks included. A launch
/// that finds `launch_queue` launches on their way waits for the first of them, and takes its own
/// time then (find_launch_queues). What the recorded steps wait for when they are done again is
/// ReplayProgram::round.
///
/// Work of one stream that overlaps by a microsecond or less is rounding of the recording: the
/// later one loses it. Shifting the recording in time does not change the program.
[[nodiscard]] ReplayBuild build_replay_program(const Trace& trace, const KernelNames& names,
                                               std::uint32_t launch_queue = kLaunchQueue);

}  // namespace tracecast::traces
