#include "traces/kineto/reader.hpp"

#include <charconv>

#include "sim/base/error.hpp"
#include "traces/bytes/json_scanner.hpp"
#include "traces/contains.hpp"
#include "traces/kineto/event.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces {
namespace {

using kineto::Category;
using kineto::Event;

constexpr std::size_t kMostDevices = 1024;
constexpr std::size_t kLongestLoss = 200;

/// The number at the end of "stream 7" or "7".
std::optional<std::int64_t> trailing_number(std::string_view text) {
  const std::size_t blank = text.rfind(' ');
  return kineto::parse_whole(blank == std::string_view::npos ? text : text.substr(blank + 1));
}

CopyKind copy_kind(std::string_view name) {
  if (contains(name, "HtoD")) return CopyKind::HostToDevice;
  if (contains(name, "DtoH")) return CopyKind::DeviceToHost;
  if (contains(name, "DtoD")) return CopyKind::DeviceToDevice;
  if (contains(name, "PtoP")) return CopyKind::PeerToPeer;
  if (contains(name, "HtoH")) return CopyKind::HostToHost;
  return CopyKind::Unknown;
}

HostMemory host_memory(std::string_view name) {
  if (contains(name, "Pageable")) return HostMemory::Pageable;
  if (contains(name, "Pinned")) return HostMemory::Pinned;
  if (contains(name, "Managed")) return HostMemory::Managed;
  return HostMemory::Unknown;
}

SyncKind sync_kind(std::string_view text) {
  if (text == "Stream Wait Event") return SyncKind::StreamWaitEvent;
  if (text == "Event Sync") return SyncKind::Event;
  if (text == "Stream Sync") return SyncKind::Stream;
  if (text == "Context Sync" || text == "Device Sync") return SyncKind::Context;
  return SyncKind::Unknown;
}

/// What old schemas record as operators although they are stretches of the program.
bool is_mark(std::string_view name) {
  return name.starts_with("ProfilerStep") || name.starts_with("Optimizer.") ||
         name.starts_with("enumerate(DataLoader)");
}

class KinetoReader {
 public:
  KinetoReader(ByteSource& source, const std::string& name)
      : json_(source, name), builder_(trace_) {
    trace_.source = name;
    trace_.format = "PyTorch Kineto";
  }

  Trace read() {
    if (json_.peek() == JsonKind::Array) {
      read_events();
    } else {
      read_document();
    }
    if (!json_.at_end()) json_.refuse("more text behind the trace", "the end of the file");
    return std::move(trace_);
  }

 private:
  void read_document() {
    json_.enter_object();
    bool has_events = false;
    for (std::string_view key; json_.next_key(key);) {
      if (key == "traceEvents") {
        has_events = true;
        read_events();
      } else if (key == "deviceProperties") {
        read_devices();
      } else if (key == "distributedInfo") {
        read_ranks();
      } else if (key == "baseTimeNanoseconds") {
        trace_.epoch_ns = kineto::parse_whole(scalar()).value_or(0);
      } else if (key == "tracecast") {
        read_recorder();
      } else {
        json_.skip();
      }
    }
    if (!has_events) json_.refuse("no \"traceEvents\"", "a Kineto trace");
  }

  std::string_view scalar() {
    const JsonKind kind = json_.peek();
    if (kind != JsonKind::Object && kind != JsonKind::Array) return json_.text();
    json_.skip();
    return {};
  }

  void read_devices() {
    if (json_.peek() != JsonKind::Array) return json_.skip();
    json_.enter_array();
    while (json_.next_element()) {
      if (json_.peek() != JsonKind::Object) {
        json_.skip();
        continue;
      }
      Device device = read_device();
      if (trace_.devices.size() < kMostDevices) {
        trace_.devices.push_back(std::move(device));
      } else {
        trace_.leave_out("device beyond the first 1024", true);
      }
    }
  }

  Device read_device() {
    Device device;
    json_.enter_object();
    for (std::string_view key; json_.next_key(key);) {
      const auto number = [&] { return kineto::parse_whole(scalar()).value_or(0); };
      const auto small = [&] {
        const std::int64_t value = number();
        return value > 0 && value < 1 << 30 ? static_cast<int>(value) : 0;
      };
      const auto large = [&] {
        const std::int64_t value = number();
        return value > 0 ? static_cast<std::uint64_t>(value) : 0;
      };
      if (key == "id") {
        device.id = number();
      } else if (key == "name") {
        device.name = scalar();
      } else if (key == "totalGlobalMem") {
        device.memory_bytes = large();
      } else if (key == "computeMajor") {
        device.compute_major = small();
      } else if (key == "computeMinor") {
        device.compute_minor = small();
      } else if (key == "numSms") {
        device.sm_count = small();
      } else if (key == "warpSize") {
        device.warp_size = small();
      } else if (key == "maxThreadsPerMultiprocessor") {
        device.max_threads_per_sm = small();
      } else if (key == "regsPerMultiprocessor") {
        device.registers_per_sm = large();
      } else if (key == "sharedMemPerMultiprocessor" || key == "maxSharedMemoryPerMultiProcessor") {
        device.shared_bytes_per_sm = large();
      } else {
        json_.skip();
      }
    }
    return device;
  }

  void read_ranks() {
    if (json_.peek() != JsonKind::Object) return json_.skip();
    json_.enter_object();
    for (std::string_view key; json_.next_key(key);) {
      if (key == "rank") {
        trace_.rank = kineto::parse_whole(scalar());
      } else if (key == "world_size") {
        trace_.world_size = kineto::parse_whole(scalar());
      } else {
        json_.skip();
      }
    }
  }

  /// What our own recorder says of its recording (traces/cupti).
  void read_recorder() {
    if (json_.peek() != JsonKind::Object) return json_.skip();
    trace_.format = "tracecast recording";
    json_.enter_object();
    for (std::string_view key; json_.next_key(key);) {
      if (key == "lost") {
        read_losses();
      } else if (key == "cutShort") {
        if (scalar() == "true") {
          trace_.leave_out("end of the recording: the program was killed, or the disk full", true);
        }
      } else if (key == "kernelTimes") {
        if (scalar() == "CUDA events") trace_.format += ", kernels timed by CUDA events";
      } else {
        json_.skip();
      }
    }
  }

  void read_losses() {
    if (json_.peek() != JsonKind::Object) return json_.skip();
    json_.enter_object();
    for (std::string_view key; json_.next_key(key);) {
      const std::string what = "while recording: " + std::string(key.substr(0, kLongestLoss));
      const std::int64_t count = kineto::parse_whole(scalar()).value_or(0);
      trace_.leave_out(what, true);
      const auto known = trace_.left_out.find(what);
      if (count > 1 && known != trace_.left_out.end())
        known->second.count = static_cast<std::uint64_t>(count);
    }
  }

  void read_events() {
    json_.enter_array();
    while (json_.next_element()) {
      if (json_.peek() != JsonKind::Object) {
        json_.skip();
        trace_.leave_out("event that is no object", true);
        continue;
      }
      kineto::read_event(json_, event_);
      if (event_.lost_correlation) trace_.leave_out("correlation beyond 32 bits", true);
      add();
    }
  }

  void add() {
    const std::string_view useless = kineto::find_uselessness(event_);
    if (!useless.empty()) return trace_.leave_out(useless);
    switch (event_.phase) {
      case 'X':
        return add_slice();
      case 's':
      case 'f':
      case 't':
        return add_arrow();
      case 'i':
      case 'I':
        return add_instant();
      default:
        trace_.leave_out("event of phase \"" +
                         std::string(1, event_.phase == 0 ? '?' : event_.phase) + "\"");
    }
  }

  /// The event's time; nothing, and a count, when it is of no use.
  std::optional<Span> usable_span() {
    if (!event_.ts_ns || !event_.duration_ns) {
      trace_.leave_out(event_.has_ts && event_.has_duration
                           ? "event with a time that is no number or out of range"
                           : "event without begin or duration",
                       true);
      return std::nullopt;
    }
    if (*event_.duration_ns < 0) {
      trace_.leave_out("event of negative duration", true);
      return std::nullopt;
    }
    return Span{*event_.ts_ns, *event_.duration_ns};
  }

  void add_slice() {
    switch (event_.category) {
      case Category::Summary:
        return trace_.leave_out("profiler's own span of the whole trace");
      case Category::Unknown:
        return trace_.leave_out("event of category \"" + event_.category_text + "\"");
      case Category::None:
        return trace_.leave_out("event without a category");
      default:
        break;
    }
    const auto span = usable_span();
    if (!span) return;
    builder_.count_record();
    switch (event_.category) {
      case Category::Kernel:
        return add_kernel(*span);
      case Category::Memcpy:
        return add_copy(*span);
      case Category::Memset:
        return add_memset(*span);
      case Category::Call:
      case Category::Overhead:
        return add_call(*span);
      case Category::Sync:
        return add_sync(*span);
      case Category::Op:
        return is_mark(event_.name) ? add_mark(*span) : add_op(*span);
      case Category::Annotation:
        // PyTorch since 2.0 marks what it recorded as an operator before, dims included.
        if (event_.name.starts_with("nccl:")) add_op(*span);
        return add_mark(*span);
      case Category::GpuAnnotation:
        return add_mark(*span);
      default:
        trace_.leave_out("stretch of a category that has none");
    }
  }

  NameId name(std::string_view text) { return trace_.names.intern(text); }
  ThreadId thread() { return builder_.thread(event_.pid, event_.tid); }

  StreamId stream() {
    const auto device = event_.device ? event_.device : trailing_number(event_.pid);
    const auto number = event_.stream ? event_.stream : trailing_number(event_.tid);
    return builder_.stream(device.value_or(-1), number.value_or(-1));
  }

  void add_kernel(const Span& span) {
    Kernels& kernels = trace_.kernels;
    if (!event_.collective.empty()) add_collective(static_cast<std::uint32_t>(kernels.size()));
    kernels.span.push_back(span);
    kernels.name.push_back(name(event_.name));
    kernels.stream.push_back(stream());
    kernels.geometry.push_back(builder_.geometry(event_.geometry));
    kernels.correlation.push_back(event_.correlation);
    kernels.op.push_back(event_.external_id);
  }

  void add_copy(const Span& span) {
    Copies& copies = trace_.copies;
    copies.span.push_back(span);
    copies.stream.push_back(stream());
    copies.kind.push_back(copy_kind(event_.name));
    copies.memory.push_back(host_memory(event_.name));
    copies.bytes.push_back(event_.bytes);
    copies.correlation.push_back(event_.correlation);
    copies.op.push_back(event_.external_id);
  }

  void add_memset(const Span& span) {
    Memsets& memsets = trace_.memsets;
    memsets.span.push_back(span);
    memsets.stream.push_back(stream());
    memsets.bytes.push_back(event_.bytes);
    memsets.correlation.push_back(event_.correlation);
    memsets.op.push_back(event_.external_id);
  }

  void add_call(const Span& span) {
    Calls& calls = trace_.calls;
    calls.span.push_back(span);
    calls.name.push_back(name(event_.name));
    calls.thread.push_back(thread());
    calls.correlation.push_back(event_.correlation);
    calls.op.push_back(event_.external_id);
  }

  void add_sync(const Span& span) {
    Syncs& syncs = trace_.syncs;
    syncs.span.push_back(span);
    syncs.kind.push_back(sync_kind(event_.sync_kind.empty() ? event_.name : event_.sync_kind));
    syncs.stream.push_back(event_.stream.value_or(-1));
    syncs.awaited_stream.push_back(event_.awaited_stream);
    syncs.awaited_event.push_back(event_.awaited_event);
    syncs.awaited_record.push_back(event_.awaited_record);
    syncs.correlation.push_back(event_.correlation);
  }

  void add_op(const Span& span) {
    Ops& ops = trace_.ops;
    if (!event_.collective.empty()) add_collective(Collectives::kNone);
    ops.span.push_back(span);
    ops.name.push_back(name(event_.name));
    ops.thread.push_back(thread());
    ops.id.push_back(event_.external_id);
    ops.dims.push_back(name(event_.dims));
    ops.types.push_back(name(event_.types));
    ops.values.push_back(name(event_.values));
    ops.sequence.push_back(event_.sequence);
    ops.forward_thread.push_back(event_.forward_thread);
  }

  void add_mark(const Span& span) {
    Marks& marks = trace_.marks;
    marks.span.push_back(span);
    marks.name.push_back(name(event_.name));
    marks.thread.push_back(thread());
    marks.on_gpu.push_back(event_.category == Category::GpuAnnotation);
  }

  void add_collective(std::uint32_t kernel) {
    Collectives& collectives = trace_.collectives;
    collectives.name.push_back(name(event_.collective));
    collectives.kernel.push_back(kernel);
    collectives.op.push_back(event_.external_id);
    collectives.data_type.push_back(name(event_.data_type));
    collectives.in_elements.push_back(event_.in_elements);
    collectives.out_elements.push_back(event_.out_elements);
    collectives.group_size.push_back(event_.group_size);
    collectives.group.push_back(name(event_.group));
  }

  void add_arrow() {
    if (event_.category != Category::ForwardBackwardArrow)
      return trace_.leave_out("arrow of another kind");
    if (!event_.ts_ns || event_.id < 0) return trace_.leave_out("arrow without time or id", true);
    builder_.count_record();
    ForwardBackward& links = trace_.forward_backward;
    links.id.push_back(event_.id);
    links.at_ns.push_back(*event_.ts_ns);
    links.thread.push_back(thread());
    links.is_backward.push_back(event_.phase == 'f');
  }

  void add_instant() {
    if (event_.name != "[memory]") return trace_.leave_out("instant event");
    if (!event_.ts_ns) return trace_.leave_out("allocation without a usable time", true);
    builder_.count_record();
    Allocations& allocations = trace_.allocations;
    allocations.at_ns.push_back(*event_.ts_ns);
    allocations.bytes.push_back(event_.signed_bytes);
    allocations.total_allocated.push_back(event_.total_allocated);
    allocations.total_reserved.push_back(event_.total_reserved);
    // PyTorch's device types: 0 = CPU.
    const bool is_host = event_.device_type == 0;
    allocations.device.push_back(is_host ? -1 : static_cast<std::int32_t>(event_.device_id));
  }

  JsonScanner json_;
  Trace trace_;
  TraceBuilder builder_;
  Event event_;
};

}  // namespace

Trace read_kineto(ByteSource& source, const std::string& name) {
  return KinetoReader(source, name).read();
}

}  // namespace tracecast::traces
