#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "traces/replay/gpu_work.hpp"
#include "traces/replay/host_threads.hpp"

namespace tracecast::traces {

/// A call that put GPU work in the launch queue.
struct QueuedLaunch {
  std::uint32_t call = 0;  ///< HostThreads::outer
  std::uint32_t work = 0;  ///< the last of its work to end, index into GpuWorks::all
  /// The launch whose work makes room for it by ending, index into LaunchQueue::launches; none: the
  /// first ones of the queue, and those that returned before that end.
  std::optional<std::uint32_t> room;
  std::int64_t blocked_ns = 0;  ///< of the call, from its begin until it went on; 0: there was room
};
/// The launches of one device in order.
struct LaunchQueue {
  std::uint32_t depth = 0;
  std::vector<QueuedLaunch> launches;
};

/// Which recorded launches found the queue full, and for how long.
///
/// A launch waits until fewer than `depth` of those before it have not ended. The depth is `most`,
/// or what the recording shows where that is near: the driver keeps some slots for itself (1022
/// were seen of 1024), so when launches begin with most - most / 32 or more before them, it is the
/// number that most of these begin with. A launch is blocked when the work that makes room for it
/// ends during its call. What such a call takes by itself is what calls of its name take that were
/// not blocked (the median); all else of it was waiting, for room and to see that there is some.
[[nodiscard]] std::vector<LaunchQueue> find_launch_queues(const Trace& trace, const GpuWorks& works,
                                                          const HostThreads& host,
                                                          std::uint32_t most);

}  // namespace tracecast::traces
