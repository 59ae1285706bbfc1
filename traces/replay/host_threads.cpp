#include "traces/replay/host_threads.hpp"

#include <algorithm>
#include <tuple>

namespace tracecast::traces {
namespace {

using Kind = HostEvent::Kind;

bool is_step(std::string_view name) { return name.starts_with("ProfilerStep"); }
bool is_loader(std::string_view name) { return name.find("DataLoader") != std::string_view::npos; }

/// Calls and step marks by thread, sorted: at one moment ends of steps, begins of steps, calls; outer before inner.
std::vector<std::vector<HostEvent>> events_by_thread(const Trace& trace) {
  std::vector<std::vector<HostEvent>> threads(trace.threads.size());
  for (std::uint32_t i = 0; i < trace.calls.size(); ++i) {
    if (trace.calls.correlation[i] == 0) continue;  // the profiler's own overhead
    threads[trace.calls.thread[i].index].push_back({Kind::Call, i, trace.calls.span[i], 0, 0, {}});
  }
  for (std::uint32_t i = 0; i < trace.marks.size(); ++i) {
    if (trace.marks.on_gpu[i] || !is_step(trace[trace.marks.name[i]])) continue;
    auto& events = threads[trace.marks.thread[i].index];
    const Span& span = trace.marks.span[i];
    events.push_back({Kind::StepBegin, i, {span.begin_ns, 0}, 0, 0, {}});
    events.push_back({Kind::StepEnd, i, {span.end_ns(), 0}, 0, 0, {}});
  }
  for (auto& events : threads) {
    std::sort(events.begin(), events.end(), [](const HostEvent& a, const HostEvent& b) {
      return std::tuple(a.span.begin_ns, a.kind, -a.span.duration_ns, a.index) <
             std::tuple(b.span.begin_ns, b.kind, -b.span.duration_ns, b.index);
    });
  }
  return threads;
}

/// Drops calls within calls and cuts what overlaps.
void flatten(std::vector<HostEvent>& events, std::vector<std::uint32_t>& outer) {
  std::size_t kept = 0;
  std::int64_t free_ns = 0;
  std::uint32_t around = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    HostEvent event = events[i];
    const bool is_call = event.kind == Kind::Call;
    if (kept > 0 && event.span.begin_ns < free_ns) {
      if (is_call && event.span.end_ns() <= free_ns) {
        outer[event.index] = around;
        continue;
      }
      event.span = {free_ns, std::max<std::int64_t>(event.span.end_ns() - free_ns, 0)};
    }
    free_ns = event.span.end_ns();
    if (is_call) around = event.index;
    events[kept++] = event;
  }
  events.resize(kept);
}

Intervals loading_on(const Trace& trace, ThreadId thread) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < trace.marks.size(); ++i) {
    if (!trace.marks.on_gpu[i] && trace.marks.thread[i] == thread &&
        is_loader(trace[trace.marks.name[i]]))
      spans.push_back(trace.marks.span[i]);
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    if (trace.ops.thread[i] == thread && is_loader(trace[trace.ops.name[i]]))
      spans.push_back(trace.ops.span[i]);
  }
  return Intervals::union_of(std::move(spans));
}

using Place = std::pair<std::uint32_t, std::uint32_t>;  // (thread, event)

/// The last call of another thread that takes turns, wholly within (from, to).
std::optional<Place> last_within(const HostThreads& host, const std::vector<bool>& takes_turns,
                                 std::uint32_t thread, std::int64_t from_ns, std::int64_t to_ns) {
  std::optional<Place> last;
  std::int64_t last_ns = from_ns;
  for (std::uint32_t other = 0; other < host.threads.size(); ++other) {
    if (other == thread || !takes_turns[other]) continue;
    const auto& events = host.threads[other];
    auto at = std::partition_point(events.begin(), events.end(), [to_ns](const HostEvent& e) {
      return e.span.end_ns() <= to_ns;
    });
    if (at == events.begin()) continue;
    --at;
    if (at->span.begin_ns < from_ns || at->span.end_ns() < last_ns) continue;
    last = Place(other, static_cast<std::uint32_t>(at - events.begin()));
    last_ns = at->span.end_ns();
  }
  return last;
}

}  // namespace

HostThreads find_host_threads(const Trace& trace, const std::vector<bool>& takes_turns,
                              std::int64_t begin_ns) {
  HostThreads host;
  host.threads = events_by_thread(trace);
  host.outer.resize(trace.calls.size());
  for (std::uint32_t i = 0; i < host.outer.size(); ++i) host.outer[i] = i;
  for (auto& events : host.threads) flatten(events, host.outer);

  for (std::uint32_t thread = 0; thread < host.threads.size(); ++thread) {
    const Intervals loading = loading_on(trace, ThreadId{thread});
    std::int64_t free_ns = begin_ns;
    for (HostEvent& event : host.threads[thread]) {
      const std::int64_t to_ns = event.span.begin_ns;
      if (takes_turns[thread]) event.after = last_within(host, takes_turns, thread, free_ns, to_ns);
      if (event.after) {
        ++host.handoffs;
        free_ns = host.threads[event.after->first][event.after->second].span.end_ns();
      }
      event.input_ns = loading.within(free_ns, to_ns);
      event.host_ns = to_ns - free_ns - event.input_ns;
      free_ns = event.span.end_ns();
    }
  }
  return host;
}

}  // namespace tracecast::traces
