#include "traces/recorded_timeline.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "traces/classify.hpp"

namespace tracecast::traces {
namespace {

using Kind = TimelineTrack::Kind;

constexpr std::int64_t kLongestNs = std::int64_t{100} * 86'400 * 1'000'000'000;

/// Calls `f(span)` for everything that is shown.
template <class F>
void for_each_span(const Trace& trace, F f) {
  for (const auto* spans : {&trace.kernels.span, &trace.copies.span, &trace.memsets.span,
                            &trace.calls.span, &trace.ops.span, &trace.marks.span}) {
    for (const Span& span : *spans) f(span);
  }
}

std::string copy_name(CopyKind kind) { return "copy " + std::string(to_string(kind)); }

class Drawer {
 public:
  Drawer(const Recording& recording, const KernelNames& names)
      : recording_(recording), names_(names) {}

  Timeline draw() {
    std::int64_t end = std::numeric_limits<std::int64_t>::min();
    begin_ = std::numeric_limits<std::int64_t>::max();
    for (const Trace& trace : recording_.traces) {
      const std::int64_t shift = shift_of(trace);
      for_each_span(trace, [&](const Span& span) {
        begin_ = std::min(begin_, span.begin_ns + shift);
        end = std::max(end, span.end_ns() + shift);
      });
    }
    if (begin_ < end && (begin_ < end - kLongestNs))
      throw InputError(recording_.traces.front().source, "more than 100 days from begin to end",
                       "a shorter recording");
    for (const Trace& trace : recording_.traces) draw_trace(trace);
    return std::move(timeline_);
  }

 private:
  /// What brings a trace's times to those of the first one.
  [[nodiscard]] std::int64_t shift_of(const Trace& trace) const {
    const std::int64_t first = recording_.traces.front().epoch_ns;
    const bool comparable = first != 0 && trace.epoch_ns != 0;
    return comparable ? std::clamp(trace.epoch_ns - first, -kLongestNs, kLongestNs) : 0;
  }

  void draw_trace(const Trace& trace) {
    shift_ = shift_of(trace);
    add_tracks(trace);
    add_names(trace);
    const LaunchIndex launches(trace);
    const std::vector<KernelNameInfo> infos = classify_kernels(trace, names_, launches);
    std::unordered_map<std::uint32_t, std::uint32_t> call_slice;
    for (std::size_t i = 0; i < trace.calls.size(); ++i) {
      const std::uint32_t slice = add(SliceKind::Call, threads_[trace.calls.thread[i].index],
                                      text_[trace.calls.name[i].index], trace.calls.span[i]);
      timeline_.slices[slice].correlation = trace.calls.correlation[i];
      if (trace.calls.correlation[i] != 0) call_slice.emplace(trace.calls.correlation[i], slice);
    }
    const auto launched = [&](std::uint32_t slice, std::uint32_t correlation) {
      timeline_.slices[slice].correlation = correlation;
      const auto call = call_slice.find(correlation);
      if (call == call_slice.end()) return;
      if (timeline_.slices[call->second].begin_ps <= timeline_.slices[slice].begin_ps)
        timeline_.flows.push_back({call->second, slice});
    };
    const Kernels& k = trace.kernels;
    for (std::size_t i = 0; i < k.size(); ++i) {
      const std::uint32_t slice =
          add(SliceKind::Kernel, streams_[k.stream[i].index], text_[k.name[i].index], k.span[i]);
      timeline_.slices[slice].kernel_class = infos[i].kernel_class;
      launched(slice, k.correlation[i]);
    }
    const Copies& c = trace.copies;
    for (std::size_t i = 0; i < c.size(); ++i) {
      const std::uint32_t slice =
          add(SliceKind::Copy, streams_[c.stream[i].index], name(copy_name(c.kind[i])), c.span[i]);
      timeline_.slices[slice].bytes = c.bytes[i];
      launched(slice, c.correlation[i]);
    }
    const Memsets& m = trace.memsets;
    for (std::size_t i = 0; i < m.size(); ++i) {
      const std::uint32_t slice =
          add(SliceKind::Memset, streams_[m.stream[i].index], name("memset"), m.span[i]);
      timeline_.slices[slice].bytes = m.bytes[i];
      launched(slice, m.correlation[i]);
    }
    for (std::size_t i = 0; i < trace.ops.size(); ++i)
      add(SliceKind::HostWork, threads_[trace.ops.thread[i].index], text_[trace.ops.name[i].index],
          trace.ops.span[i]);
    for (std::size_t i = 0; i < trace.marks.size(); ++i)
      add(SliceKind::Mark, threads_[trace.marks.thread[i].index], text_[trace.marks.name[i].index],
          trace.marks.span[i]);
    if (timeline_.gpu.empty() && !trace.devices.empty()) timeline_.gpu = trace.devices.front().name;
  }

  void add_tracks(const Trace& trace) {
    std::string rank;
    if (recording_.traces.size() > 1) {
      const auto place = static_cast<std::int64_t>(&trace - recording_.traces.data());
      rank = "rank " + std::to_string(trace.rank.value_or(place)) + ", ";
    }
    streams_.clear();
    std::map<std::int64_t, std::int64_t> devices;
    for (const Stream& stream : trace.streams) {
      const auto [at, is_new] = devices.try_emplace(stream.device, num_devices_);
      if (is_new) ++num_devices_;
      streams_.push_back(add_track({Kind::Stream, at->second, stream.number,
                                    rank + "stream " + std::to_string(stream.number), true}));
    }
    threads_.clear();
    for (const Thread& thread : trace.threads) {
      const auto number = static_cast<std::int64_t>(timeline_.tracks.size());
      threads_.push_back(
          add_track({Kind::HostThread, 0, number,
                     rank + "thread " + thread.process + " " + thread.thread, true}));
    }
  }
  std::uint32_t add_track(TimelineTrack track) {
    timeline_.tracks.push_back(std::move(track));
    return static_cast<std::uint32_t>(timeline_.tracks.size() - 1);
  }

  void add_names(const Trace& trace) {
    text_.clear();
    for (std::uint32_t i = 0; i < trace.names.size(); ++i) text_.push_back(0);
    const auto use = [&](const std::vector<NameId>& ids) {
      for (const NameId id : ids) {
        if (text_[id.index] == 0) text_[id.index] = name(std::string(trace[id]));
      }
    };
    use(trace.kernels.name), use(trace.calls.name), use(trace.ops.name), use(trace.marks.name);
  }
  std::uint32_t name(const std::string& text) {
    const auto [at, is_new] =
        known_.emplace(text, static_cast<std::uint32_t>(timeline_.names.size()));
    if (is_new) timeline_.names.push_back(text);
    return at->second;
  }

  std::uint32_t add(SliceKind kind, std::uint32_t track, std::uint32_t text, const Span& span) {
    timeline_.slices.push_back({kind, KernelClass::Other, track, text, 0,
                                (span.begin_ns + shift_ - begin_) * 1000, span.duration_ns * 1000,
                                0});
    return static_cast<std::uint32_t>(timeline_.slices.size() - 1);
  }

  const Recording& recording_;
  const KernelNames& names_;
  Timeline timeline_;
  std::map<std::string, std::uint32_t> known_{{"", 0}};
  std::int64_t begin_ = 0, shift_ = 0, num_devices_ = 0;
  std::vector<std::uint32_t> streams_, threads_, text_;
};

}  // namespace

Timeline recorded_timeline(const Recording& recording, const KernelNames& names) {
  return Drawer(recording, names).draw();
}

}  // namespace tracecast::traces
