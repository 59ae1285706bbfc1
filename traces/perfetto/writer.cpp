#include "traces/perfetto/writer.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/foreign_text.hpp"
#include "traces/perfetto/perfetto.pb.h"

namespace tracecast::traces {
namespace {

using perfetto::TracePacket;
using perfetto::TrackEvent;

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::uint32_t kSequence = 1;
constexpr std::uint32_t kForgets = 1, kRefers = 2;
constexpr std::uint64_t kCorrelationName = 1, kBytesName = 2;
constexpr std::size_t kMostLanes = 256;  ///< of one track; beyond, slices are cut short

std::string_view category(SliceKind kind) {
  switch (kind) {
    case SliceKind::Kernel:
      return "kernel";
    case SliceKind::Copy:
      return "copy";
    case SliceKind::Memset:
      return "memset";
    case SliceKind::Call:
      return "call";
    case SliceKind::HostWork:
      return "operator";
    case SliceKind::Mark:
      return "mark";
    case SliceKind::Transfer:
      return "transfer";
  }
  return "?";
}
constexpr std::size_t kSliceKinds = 7;

std::uint64_t nanoseconds(std::int64_t ps) { return static_cast<std::uint64_t>(ps / 1000); }

/// Slices that nest: one track of the file.
struct Lane {
  std::vector<std::uint32_t> slices;
  std::vector<std::int64_t> open;  ///< ends, ps
};

class Writer {
 public:
  Writer(const Timeline& timeline, const ByteSink& sink) : timeline_(timeline), sink_(sink) {}

  void write() {
    find_arrows();
    write_texts();
    for (std::uint32_t track = 0; track < timeline_.tracks.size(); ++track) write_track(track);
    sink_(bytes_);
  }

 private:
  void put(const TracePacket& packet) {
    const std::size_t size = packet.ByteSizeLong();
    bytes_ += '\x0a';  // field 1 of Trace, a message
    std::size_t rest = size;
    for (; rest >= 0x80; rest >>= 7) bytes_ += static_cast<char>((rest & 0x7F) | 0x80);
    bytes_ += static_cast<char>(rest);
    packet.AppendToString(&bytes_);
    if (bytes_.size() < kPieceBytes) return;
    sink_(bytes_);
    bytes_.clear();
  }

  /// Ids of arrows by slice, sorted.
  void find_arrows() {
    for (std::size_t i = 0; i < timeline_.flows.size(); ++i) {
      arrows_.emplace_back(timeline_.flows[i].from, i + 1);
      arrows_.emplace_back(timeline_.flows[i].to, i + 1);
    }
    std::sort(arrows_.begin(), arrows_.end());
  }

  void write_texts() {
    TracePacket packet;
    packet.set_trusted_packet_sequence_id(kSequence);
    packet.set_sequence_flags(kForgets);
    perfetto::InternedData& data = *packet.mutable_interned_data();
    const auto add = [](auto* list, std::uint64_t id, std::string_view text) {
      perfetto::InternedText& entry = *list->Add();
      entry.set_iid(id);
      entry.set_name(as_utf8(text));
    };
    for (std::size_t i = 0; i < timeline_.names.size(); ++i)
      add(data.mutable_event_names(), i + 1, timeline_.names[i]);
    for (std::size_t i = 0; i < kSliceKinds; ++i)
      add(data.mutable_event_categories(), i + 1, category(static_cast<SliceKind>(i)));
    for (std::size_t i = 0; i < kKernelClassCount; ++i)
      add(data.mutable_event_categories(), kSliceKinds + i + 1,
          to_string(static_cast<KernelClass>(i)));
    add(data.mutable_debug_annotation_names(), kCorrelationName, "correlation");
    add(data.mutable_debug_annotation_names(), kBytesName, "bytes");
    put(packet);
  }

  /// The process that a track belongs to; written where it is new.
  std::uint64_t process_of(const TimelineTrack& track) {
    using Kind = TimelineTrack::Kind;
    const std::int64_t device = track.kind == Kind::Stream ? track.device : 0;
    const auto [at, is_new] = processes_.try_emplace({track.kind, device}, next_track_);
    if (!is_new) return at->second;
    TracePacket packet;
    packet.set_trusted_packet_sequence_id(kSequence);
    perfetto::TrackDescriptor& descriptor = *packet.mutable_track_descriptor();
    descriptor.set_uuid(next_track_++);
    descriptor.mutable_process()->set_pid(static_cast<std::int32_t>(processes_.size()));
    std::string name = track.kind == Kind::HostThread ? "host" : "links";
    if (track.kind == Kind::Stream) {
      name = "GPU " + std::to_string(device);
      if (!timeline_.gpu.empty()) name += ": " + timeline_.gpu;
    }
    descriptor.mutable_process()->set_process_name(as_utf8(name));
    put(packet);
    return at->second;
  }

  std::vector<Lane> lanes_of(std::uint32_t track) {
    if (by_track_.empty()) {
      by_track_.resize(timeline_.tracks.size());
      for (std::uint32_t i = 0; i < timeline_.slices.size(); ++i)
        by_track_[timeline_.slices[i].track].push_back(i);
    }
    std::vector<std::uint32_t>& slices = by_track_[track];
    std::sort(slices.begin(), slices.end(), [this](std::uint32_t a, std::uint32_t b) {
      const auto key = [this](std::uint32_t i) {
        return std::tuple(timeline_.slices[i].begin_ps, -timeline_.slices[i].duration_ps, i);
      };
      return key(a) < key(b);
    });
    std::vector<Lane> lanes(1);
    for (const std::uint32_t i : slices) {
      const TimelineSlice& slice = timeline_.slices[i];
      const std::int64_t end = slice.begin_ps + slice.duration_ps;
      const auto fits = [&](Lane& lane) {
        while (!lane.open.empty() && lane.open.back() <= slice.begin_ps) lane.open.pop_back();
        return lane.open.empty() || lane.open.back() >= end;
      };
      auto lane = std::find_if(lanes.begin(), lanes.end(), fits);
      if (lane == lanes.end() && lanes.size() < kMostLanes)
        lane = lanes.insert(lanes.end(), Lane());
      if (lane == lanes.end()) --lane;
      lane->slices.push_back(i);
      lane->open.push_back(lane->open.empty() ? end : std::min(end, lane->open.back()));
    }
    return lanes;
  }

  void write_track(std::uint32_t number) {
    const TimelineTrack& track = timeline_.tracks[number];
    const std::uint64_t process = process_of(track);
    std::string name = track.name;
    if (name.empty()) {
      name = (track.kind == TimelineTrack::Kind::Stream ? "stream " : "thread ") +
             std::to_string(track.number);
    }
    for (const Lane& lane : lanes_of(number)) {
      TracePacket packet;
      packet.set_trusted_packet_sequence_id(kSequence);
      perfetto::TrackDescriptor& descriptor = *packet.mutable_track_descriptor();
      descriptor.set_uuid(next_track_);
      descriptor.set_name(as_utf8(name));
      descriptor.set_parent_uuid(process);
      put(packet);
      write_lane(lane, next_track_++);
    }
    by_track_[number] = {};
  }

  void write_lane(const Lane& lane, std::uint64_t track) {
    std::vector<std::int64_t> ends;
    event_.set_trusted_packet_sequence_id(kSequence);
    event_.set_sequence_flags(kRefers);
    event_.mutable_track_event()->set_track_uuid(track);
    for (const std::uint32_t i : lane.slices) {
      const TimelineSlice& slice = timeline_.slices[i];
      while (!ends.empty() && ends.back() <= slice.begin_ps) {
        write_end(ends.back());
        ends.pop_back();
      }
      const std::int64_t end = slice.begin_ps + slice.duration_ps;
      ends.push_back(ends.empty() ? end : std::min(end, ends.back()));
      write_begin(i, slice);
    }
    for (; !ends.empty(); ends.pop_back()) write_end(ends.back());
  }

  void write_begin(std::uint32_t number, const TimelineSlice& slice) {
    event_.set_timestamp(nanoseconds(slice.begin_ps));
    TrackEvent& event = *event_.mutable_track_event();
    event.set_type(TrackEvent::SLICE_BEGIN);
    event.set_name_iid(slice.name + 1);
    event.add_category_iids(static_cast<std::uint64_t>(slice.kind) + 1);
    if (slice.kind == SliceKind::Kernel)
      event.add_category_iids(kSliceKinds + static_cast<std::uint64_t>(slice.kernel_class) + 1);
    const auto annotate = [&event](std::uint64_t name, std::uint64_t value) {
      if (value == 0) return;
      perfetto::DebugAnnotation& annotation = *event.add_debug_annotations();
      annotation.set_name_iid(name);
      annotation.set_uint_value(value);
    };
    annotate(kCorrelationName, slice.correlation);
    annotate(kBytesName, slice.bytes);
    auto arrow =
        std::lower_bound(arrows_.begin(), arrows_.end(), std::pair(number, std::uint64_t{0}));
    for (; arrow != arrows_.end() && arrow->first == number; ++arrow)
      event.add_flow_ids(arrow->second);
    put(event_);
    event.clear_category_iids();
    event.clear_debug_annotations();
    event.clear_flow_ids();
    event.clear_name_iid();
  }
  void write_end(std::int64_t at_ps) {
    event_.set_timestamp(nanoseconds(at_ps));
    event_.mutable_track_event()->set_type(TrackEvent::SLICE_END);
    put(event_);
  }

  const Timeline& timeline_;
  const ByteSink& sink_;
  std::string bytes_;
  TracePacket event_;
  std::uint64_t next_track_ = 1;
  std::map<std::pair<TimelineTrack::Kind, std::int64_t>, std::uint64_t> processes_;
  std::vector<std::vector<std::uint32_t>> by_track_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> arrows_;
};

}  // namespace

void write_perfetto_trace(const Timeline& timeline, const ByteSink& sink) {
  const std::vector<std::string> faults = find_faults(timeline);
  TRACECAST_CHECK(faults.empty(), faults.empty() ? "" : faults.front());
  Writer(timeline, sink).write();
}

}  // namespace tracecast::traces
