#include "traces/replay/host_threads.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <tuple>

namespace tracecast::traces {
namespace {

using Kind = HostEvent::Kind;

bool is_step(std::string_view name) { return name.starts_with("ProfilerStep"); }
bool is_loader(std::string_view name) { return name.find("DataLoader") != std::string_view::npos; }

/// Calls and step marks by thread, sorted: at one moment ends of steps, begins of steps, calls;
/// outer before inner.
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

/// Loading of data by thread, where there is any.
std::map<std::uint32_t, std::vector<Span>> loading_by_thread(const Trace& trace) {
  std::vector<bool> loads(trace.names.size());
  for (std::uint32_t i = 0; i < loads.size(); ++i) loads[i] = is_loader(trace[NameId{i}]);
  std::map<std::uint32_t, std::vector<Span>> threads;
  for (std::size_t i = 0; i < trace.marks.size(); ++i) {
    if (!trace.marks.on_gpu[i] && loads[trace.marks.name[i].index])
      threads[trace.marks.thread[i].index].push_back(trace.marks.span[i]);
  }
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    if (loads[trace.ops.name[i].index])
      threads[trace.ops.thread[i].index].push_back(trace.ops.span[i]);
  }
  return threads;
}

using Place = std::pair<std::uint32_t, std::uint32_t>;  // (thread, event)

/// The calls of all threads that take turns, found by time in O(log calls) however many threads
/// there are.
class Turns {
 public:
  Turns(const HostThreads& host, const std::vector<bool>& takes_turns) {
    for (std::uint32_t thread = 0; thread < host.threads.size(); ++thread) {
      if (!takes_turns[thread]) continue;
      for (std::uint32_t i = 0; i < host.threads[thread].size(); ++i) {
        const Span& span = host.threads[thread][i].span;
        calls_.push_back({span.end_ns(), span.begin_ns, {thread, i}});
      }
    }
    std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) {
      return std::tie(a.end_ns, a.place) < std::tie(b.end_ns, b.place);
    });
    leaves_ = std::bit_ceil(calls_.size() + 1);
    latest_.assign(2 * leaves_, std::numeric_limits<std::int64_t>::min());
    for (std::size_t i = 0; i < calls_.size(); ++i) latest_[leaves_ + i] = calls_[i].begin_ns;
    for (std::size_t node = leaves_ - 1; node > 0; --node)
      latest_[node] = std::max(latest_[2 * node], latest_[2 * node + 1]);
  }

  /// The last call of a thread other than this one wholly within (from, to); of those that end
  /// together that of the last thread.
  [[nodiscard]] std::optional<Place> last_within(std::uint32_t thread, std::int64_t from_ns,
                                                 std::int64_t to_ns) const {
    const auto behind = [this](std::int64_t end_ns, Place place) {
      return static_cast<std::size_t>(std::partition_point(calls_.begin(), calls_.end(),
                                                           [&](const Call& c) {
                                                             return std::tie(c.end_ns, c.place) <
                                                                    std::tie(end_ns, place);
                                                           }) -
                                      calls_.begin());
    };
    constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
    std::size_t at = last_from(behind(to_ns, {kLast, kLast}), from_ns);
    // Its own calls within take no time, at the begin or at the end: two moments at most.
    while (at > 0 && calls_[at - 1].place.first == thread)
      at = last_from(behind(calls_[at - 1].end_ns, {thread, 0}), from_ns);
    return at > 0 ? std::optional(calls_[at - 1].place) : std::nullopt;
  }

 private:
  struct Call {
    std::int64_t end_ns = 0, begin_ns = 0;
    Place place;
  };

  /// Of the first `count` calls the last to begin at `from_ns` or later: its place plus 1; 0 =
  /// there is none.
  [[nodiscard]] std::size_t last_from(std::size_t count, std::int64_t from_ns) const {
    // Up from the right edge through subtrees wholly within, then down the last that holds one.
    for (std::size_t node = leaves_ + count; node > 1; node /= 2) {
      if (node % 2 == 0 || latest_[node - 1] < from_ns) continue;
      for (--node; node < leaves_;) node = 2 * node + (latest_[2 * node + 1] >= from_ns ? 1 : 0);
      return node - leaves_ + 1;
    }
    return 0;
  }

  std::vector<Call> calls_;  ///< by end
  std::size_t leaves_ = 1;   ///< a power of two, more than calls
  std::vector<std::int64_t>
      latest_;  ///< begin of any call of a node's subtree; node i has 2i and 2i + 1
};

}  // namespace

HostThreads find_host_threads(const Trace& trace, const std::vector<bool>& takes_turns,
                              std::int64_t begin_ns) {
  HostThreads host;
  host.threads = events_by_thread(trace);
  host.outer.resize(trace.calls.size());
  for (std::uint32_t i = 0; i < host.outer.size(); ++i) host.outer[i] = i;
  for (auto& events : host.threads) flatten(events, host.outer);

  auto loads = loading_by_thread(trace);
  const Turns turns(host, takes_turns);
  for (std::uint32_t thread = 0; thread < host.threads.size(); ++thread) {
    const auto at = loads.find(thread);
    const Intervals loading =
        at == loads.end() ? Intervals() : Intervals::union_of(std::move(at->second));
    std::int64_t free_ns = begin_ns;
    for (HostEvent& event : host.threads[thread]) {
      const std::int64_t to_ns = event.span.begin_ns;
      if (takes_turns[thread]) event.after = turns.last_within(thread, free_ns, to_ns);
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
