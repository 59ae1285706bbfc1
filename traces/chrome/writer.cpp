#include "traces/chrome/writer.hpp"

#include <string>

#include "sim/base/error.hpp"
#include "sim/base/foreign_text.hpp"
#include "traces/chrome/event_text.hpp"

namespace tracecast::traces {
namespace {

using chrome::EventText;

constexpr std::int64_t kHostProcess = 1'000'000, kLinkProcess = 1'000'001;

std::string_view category(SliceKind kind) {
  switch (kind) {
    case SliceKind::Kernel:
      return "kernel";
    case SliceKind::Copy:
      return "gpu_memcpy";
    case SliceKind::Memset:
      return "gpu_memset";
    case SliceKind::Call:
      return "cuda_runtime";
    case SliceKind::HostWork:
      return "cpu_op";
    case SliceKind::Mark:
      return "user_annotation";
    case SliceKind::Transfer:
      return "transfer";
  }
  return "?";
}

class Writer {
 public:
  Writer(const Timeline& timeline, const ByteSink& sink) : timeline_(timeline), text_(sink) {
    for (const std::string& name : timeline.names) names_.push_back(json_quoted(name));
    for (const TimelineTrack& track : timeline.tracks) {
      std::string place = ",\"pid\":" + std::to_string(process(track));
      place += ",\"tid\":" + std::to_string(track.number);
      places_.push_back(std::move(place));
    }
  }

  void write() {
    text_ += "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",";
    write_devices();
    text_ += "\"traceEvents\":[";
    for (const TimelineTrack& track : timeline_.tracks) write_track(track);
    for (const TimelineSlice& slice : timeline_.slices) write_slice(slice);
    for (std::size_t i = 0; i < timeline_.flows.size(); ++i) {
      write_end(timeline_.slices[timeline_.flows[i].from], 's', i + 1);
      write_end(timeline_.slices[timeline_.flows[i].to], 'f', i + 1);
    }
    text_ += "\n]}\n";
    text_.flush();
  }

 private:
  static std::int64_t process(const TimelineTrack& track) {
    if (track.kind == TimelineTrack::Kind::Stream) return track.device;
    return track.kind == TimelineTrack::Kind::HostThread ? kHostProcess : kLinkProcess;
  }

  void write_devices() {
    std::int64_t devices = 0;
    for (const TimelineTrack& track : timeline_.tracks) {
      if (track.kind == TimelineTrack::Kind::Stream) devices = std::max(devices, track.device + 1);
    }
    if (timeline_.gpu.empty() || devices > 65'536) return;
    text_ += "\"deviceProperties\":[";
    const std::string name = json_quoted(timeline_.gpu);
    for (std::int64_t i = 0; i < devices; ++i) {
      text_ += (i > 0 ? ",{\"id\":" : "{\"id\":") + std::to_string(i) + ",\"name\":" + name + "}";
    }
    text_ += "],";
  }

  /// Names of the process and of the track; a viewer takes the last one told.
  void write_track(const TimelineTrack& track) {
    const std::string place =
        ",\"pid\":" + std::to_string(process(track)) + ",\"tid\":" + std::to_string(track.number);
    std::string owner = track.kind == TimelineTrack::Kind::HostThread ? "host" : "links";
    if (track.kind == TimelineTrack::Kind::Stream) owner = "GPU " + std::to_string(track.device);
    std::string name = track.name;
    if (name.empty()) {
      name = (track.kind == TimelineTrack::Kind::Stream ? "stream " : "thread ") +
             std::to_string(track.number);
    }
    text_.begin_event("{\"ph\":\"M\",\"name\":\"process_name\"");
    text_ += place + ",\"args\":{\"name\":" + json_quoted(owner) + "}}";
    text_.begin_event("{\"ph\":\"M\",\"name\":\"thread_name\"");
    text_ += place + ",\"args\":{\"name\":" + json_quoted(name) + "}}";
  }

  void write_slice(const TimelineSlice& slice) {
    text_.begin_event("{\"ph\":\"X\",\"cat\":\"");
    text_ += category(slice.kind);
    text_ += "\",\"name\":";
    text_ += names_[slice.name];
    text_ += places_[slice.track];
    const std::int64_t begin = slice.begin_ps / 1000;
    text_.exact_span(begin, (slice.begin_ps + slice.duration_ps) / 1000 - begin);
    write_arguments(slice);
    text_ += '}';
  }

  void write_arguments(const TimelineSlice& slice) {
    const char* separator = ",\"args\":{";
    const auto argument = [&](std::string_view key, std::int64_t value) {
      text_ += separator;
      separator = ",";
      text_ += key;
      text_.number(value);
    };
    const TimelineTrack& track = timeline_.tracks[slice.track];
    if (track.kind == TimelineTrack::Kind::Stream && slice.kind != SliceKind::Mark) {
      argument("\"device\":", track.device);
      argument("\"stream\":", track.number);
    }
    if (slice.correlation > 0) argument("\"correlation\":", slice.correlation);
    if (slice.bytes > 0) argument("\"bytes\":", static_cast<std::int64_t>(slice.bytes));
    if (slice.kind == SliceKind::Kernel) {
      text_ += separator;
      separator = ",";
      text_ += "\"class\":\"";
      text_ += to_string(slice.kernel_class);
      text_ += '"';
    }
    if (*separator == ',' && separator[1] == '\0') text_ += '}';
  }

  /// One end of an arrow, bound to the slice that begins there.
  void write_end(const TimelineSlice& slice, char phase, std::size_t id) {
    text_.begin_event("{\"ph\":\"");
    text_ += phase;
    text_ += "\",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":";
    text_.number(static_cast<std::int64_t>(id));
    text_ += places_[slice.track];
    text_ += ",\"ts\":";
    text_.microseconds(slice.begin_ps / 1000);
    text_ += phase == 'f' ? ",\"bp\":\"e\"}" : "}";
  }

  const Timeline& timeline_;
  std::vector<std::string> names_, places_;
  EventText text_;
};

}  // namespace

void write_chrome_trace(const Timeline& timeline, const ByteSink& sink) {
  const std::vector<std::string> faults = find_faults(timeline);
  TRACECAST_CHECK(faults.empty(), faults.empty() ? "" : faults.front());
  Writer(timeline, sink).write();
}

void write_chrome_trace(const Timeline& timeline, const std::filesystem::path& path) {
  write_output_file(path, [&](const ByteSink& sink) { write_chrome_trace(timeline, sink); });
}

}  // namespace tracecast::traces
