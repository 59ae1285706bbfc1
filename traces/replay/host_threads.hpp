#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "traces/intervals.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// A call, or the begin or end of a step, on a host thread.
struct HostEvent {
  enum class Kind : std::uint8_t { StepEnd, StepBegin, Call };
  Kind kind{};
  std::uint32_t index = 0;    ///< into Trace::calls or Trace::marks
  Span span;                  ///< as recorded, cut so that the events of a thread do not overlap
  std::int64_t host_ns = 0;   ///< work of the thread before it
  std::int64_t input_ns = 0;  ///< loading of data before it
  std::optional<std::pair<std::uint32_t, std::uint32_t>>
      after;  ///< handoff: the (thread, event) it goes on after
};

struct HostThreads {
  std::vector<std::vector<HostEvent>> threads;  ///< by ThreadId, in order
  std::vector<std::uint32_t> outer;  ///< by call: the call around it on its thread, or itself
  std::uint64_t handoffs = 0;
};

/// The calls of every thread in order, with the thread's own work between them. Calls within a call
/// belong to it. Threads marked in `takes_turns` hand over to each other; the work before their
/// first event counts from `begin_ns`.
[[nodiscard]] HostThreads find_host_threads(const Trace& trace,
                                            const std::vector<bool>& takes_turns,
                                            std::int64_t begin_ns);

}  // namespace tracecast::traces
