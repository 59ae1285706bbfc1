#include "traces/replay/waits.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "traces/contains.hpp"

namespace tracecast::traces {
namespace {

constexpr std::uint32_t kNoWork = GpuWorks::kNone;
/// Streams and pieces of work that waits may look at: of recordings a few for each record.
constexpr std::uint64_t kFreeLooks = 50'000'000;
constexpr std::uint64_t kLooksPerRecord = 64;
/// Host and GPU times of older recordings are whole microseconds.
constexpr std::int64_t kRoundingNs = 1000;
/// Copies from pageable memory of so many bytes return at once.
constexpr std::uint64_t kLeastStagedBytes = 64 * 1024;

/// Freeing memory of the device waits for it; with a suffix of the interface's version
/// ("cuMemFree_v2") too.
bool is_free(std::string_view name) {
  for (const std::string_view free : {"cudaFree", "hipFree", "cuMemFree"}) {
    if (name == free || (name.starts_with(free) && name.substr(free.size()).starts_with("_v")))
      return true;
  }
  return false;
}

enum class WaitCall : std::uint8_t { None, StreamWaitEvent, Stream, Event, Device, Copy };

WaitCall wait_call(std::string_view name) {
  if (contains(name, "StreamWaitEvent")) return WaitCall::StreamWaitEvent;
  if (contains(name, "EventSynchronize")) return WaitCall::Event;
  if (contains(name, "StreamSynchronize")) return WaitCall::Stream;
  if (contains(name, "Synchronize"))
    return WaitCall::Device;  // cudaDevice..., cuCtx..., hipDevice...
  if (is_free(name)) return WaitCall::Device;
  if (contains(name, "Memcpy")) return WaitCall::Copy;
  return WaitCall::None;
}

class WaitFinder {
 public:
  WaitFinder(const Trace& trace, const GpuWorks& works, ReplayAccount& account)
      : trace_(trace), works_(works), account_(account), launches_(trace) {
    for (std::uint32_t i = 0; i < trace.syncs.size(); ++i) {
      if (trace.syncs.correlation[i] != 0) syncs_.emplace_back(trace.syncs.correlation[i], i);
    }
    std::sort(syncs_.begin(), syncs_.end());
    for (std::uint32_t i = 0; i < works.all.size(); ++i)
      by_end_.emplace_back(works.all[i].span.end_ns(), i);
    std::sort(by_end_.begin(), by_end_.end());
    for (std::uint32_t i = 0; i < trace.streams.size(); ++i)
      by_number_.emplace(trace.streams[i].number, StreamId{i});
    looks_left_ = kFreeLooks + kLooksPerRecord * (works.all.size() + trace.calls.size());
  }

  Waits find() {
    std::vector<WaitCall> kinds(trace_.names.size(), WaitCall::None);
    std::vector<bool> known(trace_.names.size(), false);
    for (std::uint32_t call = 0; call < trace_.calls.size(); ++call) {
      const std::uint32_t name = trace_.calls.name[call].index;
      if (!known[name]) {
        kinds[name] = wait_call(trace_[trace_.calls.name[call]]);
        known[name] = true;
      }
      if (kinds[name] == WaitCall::StreamWaitEvent) {
        add_stream_wait(call);
      } else if (kinds[name] != WaitCall::None) {
        add_host_wait(kinds[name], call);
      }
    }
    std::sort(waits_.streams.begin(), waits_.streams.end(),
              [](const StreamWait& a, const StreamWait& b) {
                return std::pair(a.waiter, a.awaited) < std::pair(b.waiter, b.awaited);
              });
    const auto same = [](const StreamWait& a, const StreamWait& b) {
      return a.waiter == b.waiter && a.awaited == b.awaited;
    };
    waits_.streams.erase(std::unique(waits_.streams.begin(), waits_.streams.end(), same),
                         waits_.streams.end());
    return std::move(waits_);
  }

 private:
  [[nodiscard]] std::optional<std::uint32_t> sync_of(std::uint32_t call) const {
    const std::uint32_t correlation = trace_.calls.correlation[call];
    const auto at =
        std::lower_bound(syncs_.begin(), syncs_.end(), std::pair(correlation, std::uint32_t{0}));
    if (correlation == 0 || at == syncs_.end() || at->first != correlation) return std::nullopt;
    return at->second;
  }
  /// The stream of this number on the device that the thread last launched to, or on any.
  [[nodiscard]] std::optional<StreamId> stream_of(std::int64_t number) const {
    const auto at = by_number_.find(number);
    return number < 0 || at == by_number_.end() ? std::nullopt : std::optional(at->second);
  }
  /// One more step of a search that a made-up recording could make long.
  void look() const {
    if (looks_left_ == 0)
      throw InputError(trace_.source, "waits that each concern too many streams",
                       "a recording whose waits can be told");
    --looks_left_;
  }
  /// The last work before the event that a Syncs record waits for, or kNoWork.
  [[nodiscard]] std::uint32_t before_event(std::uint32_t sync, std::int64_t at_ns) const {
    const auto stream = stream_of(trace_.syncs.awaited_stream[sync]);
    if (!stream) return kNoWork;
    const std::int64_t record = trace_.syncs.awaited_record[sync];
    if (record > 0 && record <= 0xFFFFFFFF) {
      const std::uint32_t call = launches_.call_of(static_cast<std::uint32_t>(record));
      if (call != kNoWork) at_ns = std::min(at_ns, trace_.calls.span[call].begin_ns);
    }
    return works_.last_in_stream(*stream, at_ns);
  }

  void add(std::uint32_t waiter, std::uint32_t awaited, std::uint64_t& count) {
    if (waiter == kNoWork || awaited == kNoWork || waiter == awaited) return;
    const GpuWork& first = works_.all[awaited];
    const GpuWork& second = works_.all[waiter];
    if (first.stream == second.stream) return;
    if (first.span.end_ns() > second.span.begin_ns + kRoundingNs) {
      ++account_.refuted_waits;
      return;
    }
    waits_.streams.push_back({waiter, awaited});
    ++count;
  }

  void add_stream_wait(std::uint32_t call) {
    const std::int64_t at_ns = trace_.calls.span[call].begin_ns;
    if (const auto sync = sync_of(call)) {
      const auto stream = stream_of(trace_.syncs.stream[*sync]);
      if (stream)
        add(works_.first_in_stream(*stream, at_ns), before_event(*sync, at_ns),
            account_.event_waits);
      return;
    }
    const ThreadId thread = trace_.calls.thread[call];
    const std::uint32_t waiter = works_.first_by_thread(thread, at_ns);
    if (waiter == kNoWork) return;
    const std::uint32_t last = works_.last_by_thread(thread, at_ns);
    const StreamId stream = works_.all[waiter].stream;
    if (last != kNoWork && works_.all[last].stream != stream) {
      return add(waiter, ended_in_stream(works_.all[last].stream, at_ns, waiter),
                 account_.inferred_waits);
    }
    for (std::uint32_t i = 0; i < trace_.streams.size(); ++i) {
      look();
      if (StreamId{i} != stream)
        add(waiter, ended_in_stream(StreamId{i}, at_ns, waiter), account_.inferred_waits);
    }
  }

  /// The last work of a stream launched before `at_ns` and ended when `waiter` begins: the event
  /// may have been recorded before later launches.
  [[nodiscard]] std::uint32_t ended_in_stream(StreamId stream, std::int64_t at_ns,
                                              std::uint32_t waiter) const {
    std::uint32_t work = works_.last_in_stream(stream, at_ns);
    const std::int64_t begin_ns = works_.all[waiter].span.begin_ns;
    for (; work != kNoWork && works_.all[work].span.end_ns() > begin_ns + kRoundingNs; look())
      work = works_.all[work].before;
    return work;
  }

  /// The last work to end during the call, of what was launched before it.
  [[nodiscard]] std::uint32_t ended_during(std::uint32_t call) const {
    const Span& span = trace_.calls.span[call];
    auto at = std::upper_bound(by_end_.begin(), by_end_.end(), std::pair(span.end_ns(), kNoWork));
    for (; at != by_end_.begin() && std::prev(at)->first > span.begin_ns; --at, look()) {
      const std::uint32_t work = std::prev(at)->second;
      if (works_.launch_ns(trace_, work) < span.begin_ns) return work;
    }
    return kNoWork;
  }

  /// A copy that its call moves through a buffer of the driver's, and that has not ended when the
  /// call has.
  static bool is_staged(const GpuWork& copy, const Span& call) {
    return copy.work == ReplayWork::Copy && copy.copy == CopyKind::HostToDevice &&
           copy.memory == HostMemory::Pageable && copy.bytes > kLeastStagedBytes &&
           copy.span.end_ns() > call.end_ns() + kRoundingNs && copy.span.begin_ns < call.end_ns();
  }

  void add_host_wait(WaitCall kind, std::uint32_t call) {
    const Span& span = trace_.calls.span[call];
    HostWait wait{call, {}};
    const auto await = [&](std::uint32_t work) {
      if (work == kNoWork) return;
      if (works_.all[work].span.end_ns() > span.end_ns() + kRoundingNs) {
        if (kind != WaitCall::Copy) ++account_.refuted_waits;
        return;
      }
      wait.awaited.push_back(work);
    };
    const auto sync = sync_of(call);
    if (kind == WaitCall::Copy) {
      const std::uint32_t copy = works_.of_call(call);
      wait.moves_data = copy != kNoWork && is_staged(works_.all[copy], span);
      await(wait.moves_data ? works_.all[copy].before : copy);
    } else if (kind == WaitCall::Device) {
      for (std::uint32_t i = 0; i < trace_.streams.size(); ++i, look())
        await(works_.last_in_stream(StreamId{i}, span.begin_ns));
    } else if (kind == WaitCall::Stream) {
      const auto stream = sync ? stream_of(trace_.syncs.stream[*sync]) : std::nullopt;
      await(stream ? works_.last_in_stream(*stream, span.begin_ns)
                   : works_.last_by_thread(trace_.calls.thread[call], span.begin_ns));
    } else {
      const std::uint32_t recorded = sync ? before_event(*sync, span.begin_ns) : kNoWork;
      await(recorded != kNoWork ? recorded : ended_during(call));
    }
    if (wait.awaited.empty()) return;
    ++account_.host_waits;
    waits_.host.push_back(std::move(wait));
  }

  const Trace& trace_;
  const GpuWorks& works_;
  ReplayAccount& account_;
  LaunchIndex launches_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> syncs_;  // (correlation, sync), sorted
  std::vector<std::pair<std::int64_t, std::uint32_t>> by_end_;  // (end, work), sorted
  std::unordered_map<std::int64_t, StreamId> by_number_;        // the first of each number
  mutable std::uint64_t looks_left_ = 0;
  Waits waits_;
};

}  // namespace

Waits find_waits(const Trace& trace, const GpuWorks& works, ReplayAccount& account) {
  return WaitFinder(trace, works, account).find();
}

}  // namespace tracecast::traces
