#include <cxxabi.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <memory>

#include "sim/base/error.hpp"
#include "sim/base/foreign_text.hpp"
#include "traces/bytes/output_file.hpp"
#include "traces/chrome/event_text.hpp"
#include "traces/cupti/cupti_api.hpp"
#include "traces/cupti/recorded_process.hpp"
#include "traces/cupti/stream_reader.hpp"

namespace tracecast::traces::cupti {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 18;
constexpr std::uint32_t kNone = 0xFFFFFFFF;
/// Driver calls of one thread that wait for the runtime call around them, which
/// is recorded after them.
constexpr std::size_t kMostHeldCalls = 64;

/// As people write it; what is no mangled name stays.
std::string demangled(std::string_view name) {
  if (!name.starts_with("_Z")) return std::string(name);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && plain ? plain.get() : std::string(name);
}

/// "cudaLaunchKernel" of "cudaLaunchKernel_ptsz_v7000": kinds of default stream
/// and versions mean nothing to a reader.
std::string_view plain_call(std::string_view name) {
  const std::size_t version = name.rfind("_v");
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (version != std::string_view::npos && version + 2 < name.size() &&
      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(version) + 2, name.end(), is_digit)) {
    name = name.substr(0, version);
  }
  for (const std::string_view kind : {"_ptsz", "_ptds"}) {
    if (name.ends_with(kind)) name.remove_suffix(kind.size());
  }
  return name;
}

std::string_view memory_text(std::uint8_t kind) {
  constexpr std::string_view kTexts[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                         "Array",   "Managed",  "Device Static", "Managed Static"};
  return kind < std::size(kTexts) ? kTexts[kind] : kTexts[0];
}
std::string_view copy_text(std::uint8_t kind) {
  constexpr std::string_view kTexts[] = {"Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                         "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return kind < std::size(kTexts) ? kTexts[kind] : kTexts[0];
}
std::string_view sync_text(std::uint32_t type) {
  constexpr std::string_view kTexts[] = {"Unknown Sync", "Event Sync", "Stream Wait Event",
                                         "Stream Sync", "Context Sync"};
  return type < std::size(kTexts) ? kTexts[type] : kTexts[0];
}
std::string_view overhead_text(std::uint32_t kind) {
  switch (kind) {
    case 1:
      return "Driver Compiler";
    case 1 << 16:
      return "Buffer Flush";
    case 2 << 16:
      return "Instrumentation";
    case 3 << 16:
      return "Resource";
    case 4 << 16:
      return "Runtime Triggered Module Loading";
    case 5 << 16:
      return "Lazy Function Loading";
    case 6 << 16:
      return "Command Buffer Full";
    case 7 << 16:
      return "Activity Buffer Request";
    default:
      return "Unknown Overhead";
  }
}

class TraceWriter {
 public:
  TraceWriter(const RecordedProcess& process, const std::filesystem::path& out,
              std::string_view step_prefix)
      : process_(process), out_(out), step_prefix_(step_prefix) {}

  std::uint64_t write() {
    text_ = "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\"";
    write_account();
    text_ += ",\"traceEvents\":[";
    for (StreamReader reader(process_.stream_file); reader.next();) write_record(reader);
    for (auto& [thread, held] : held_calls_) {
      for (const CallRecord& call : held) write_call(call);
    }
    text_ += "\n]";
    if (!devices_.empty()) text_ += ",\"deviceProperties\":[" + devices_ + ']';
    text_ += "}\n";
    out_.write(text_);
    out_.finish();
    return steps_;
  }

 private:
  struct Name {
    std::string plain, json = "\"\"";
  };

  void write_account() {
    text_ += ",\"tracecast\":{\"pid\":" + std::to_string(process_.pid) +
             ",\"cuptiVersion\":" + std::to_string(process_.cupti_version) + ",\"kernelTimes\":\"" +
             (process_.is_by_events ? "CUDA events" : "CUPTI") + "\",\"lost\":{";
    const char* separator = "";
    for (const auto& [what, count] : process_.losses) {
      text_ += separator + json_quoted(what) + ':' + std::to_string(count);
      separator = ",";
    }
    text_ += process_.is_cut_short ? "},\"cutShort\":true}" : "},\"cutShort\":false}";
    text_ += ",\"baseTimeNanoseconds\":" + std::to_string(process_.begin_ns);
    if (process_.rank) {
      text_ += ",\"distributedInfo\":{\"rank\":" + std::to_string(*process_.rank);
      if (process_.world_size) text_ += ",\"world_size\":" + std::to_string(*process_.world_size);
      text_ += '}';
    }
  }

  void write_record(const StreamReader& reader) {
    switch (reader.kind()) {
      case RecordKind::Name:
        return add_name(reader.as<NameRecord>().id, reader.text());
      case RecordKind::Kernel:
        return write_kernel(reader.as<KernelRecord>());
      case RecordKind::Copy:
        return write_copy(reader.as<CopyRecord>());
      case RecordKind::Memset:
        return write_memset(reader.as<MemsetRecord>());
      case RecordKind::Call:
        return sort_call(reader.as<CallRecord>());
      case RecordKind::Sync:
        return write_sync(reader.as<SyncRecord>());
      case RecordKind::Marker:
        return write_marker(reader.as<MarkerRecord>());
      case RecordKind::Overhead:
        return write_overhead(reader.as<OverheadRecord>());
      case RecordKind::Device:
        return add_device(reader.as<DeviceRecord>());
      default:
        return;
    }
  }

  void add_name(std::uint32_t id, std::string_view text) {
    Name& name = names_[id];
    name.plain = as_utf8(demangled(text));
    name.json = json_quoted(name.plain);
  }

  void number(std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    text_.append(digits, static_cast<std::size_t>(end - digits));
  }
  void argument(std::string_view key, std::int64_t value) {
    text_ += key;
    number(value);
  }
  /// Nanoseconds as microseconds, exact.
  void microseconds(std::int64_t ns) {
    if (ns < 0) text_ += '-';
    const std::uint64_t size =
        ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    number(static_cast<std::int64_t>(size / 1000));
    const auto rest = size % 1000;
    text_ += '.';
    text_ += static_cast<char>('0' + rest / 100);
    text_ += static_cast<char>('0' + rest / 10 % 10);
    text_ += static_cast<char>('0' + rest % 10);
  }
  /// Up to the arguments' first key; `name` is JSON. Ends before begin are reported
  /// as they are: our readers count them as damage.
  void begin_slice(std::string_view category, std::string_view name, std::int64_t pid,
                   std::int64_t tid, std::uint64_t begin, std::uint64_t end) {
    if (text_.size() >= kPieceBytes) {
      out_.write(text_);
      text_.clear();
    }
    text_ += is_first_ ? "\n{\"ph\":\"X\",\"cat\":\"" : ",\n{\"ph\":\"X\",\"cat\":\"";
    is_first_ = false;
    text_ += category;
    text_ += "\",\"name\":";
    text_ += name;
    argument(",\"pid\":", pid);
    argument(",\"tid\":", tid);
    text_ += ",\"ts\":";
    microseconds(static_cast<std::int64_t>(begin - process_.begin_ns));
    text_ += ",\"dur\":";
    microseconds(static_cast<std::int64_t>(end - begin));
  }
  void place_on_gpu(std::uint32_t device, std::uint32_t stream, std::uint32_t correlation) {
    argument(",\"args\":{\"device\":", device);
    argument(",\"stream\":", stream);
    argument(",\"correlation\":", correlation);
  }

  void write_kernel(const KernelRecord& kernel) {
    begin_slice("kernel", names_[kernel.name].json, kernel.device, kernel.stream, kernel.begin,
                kernel.end);
    place_on_gpu(kernel.device, kernel.stream, kernel.correlation);
    const auto extent = [this](std::string_view key, const std::uint32_t(&sizes)[3]) {
      argument(key, sizes[0]);
      argument(",", sizes[1]);
      argument(",", sizes[2]);
      text_ += ']';
    };
    extent(",\"grid\":[", kernel.grid);
    extent(",\"block\":[", kernel.block);
    argument(",\"registers per thread\":", kernel.registers_per_thread);
    argument(",\"shared memory\":", kernel.shared_bytes);
    text_ += "}}";
  }

  void write_copy(const CopyRecord& copy) {
    std::string name = "\"Memcpy ";
    name += copy_text(copy.copy_kind);
    name += " (";
    name += memory_text(copy.source_kind);
    name += " -> ";
    name += memory_text(copy.target_kind);
    name += ")\"";
    begin_slice("gpu_memcpy", name, copy.device, copy.stream, copy.begin, copy.end);
    place_on_gpu(copy.device, copy.stream, copy.correlation);
    argument(",\"bytes\":", static_cast<std::int64_t>(copy.bytes));
    text_ += "}}";
  }

  void write_memset(const MemsetRecord& fill) {
    begin_slice("gpu_memset", "\"Memset (Device)\"", fill.device, fill.stream, fill.begin,
                fill.end);
    place_on_gpu(fill.device, fill.stream, fill.correlation);
    argument(",\"bytes\":", static_cast<std::int64_t>(fill.bytes));
    text_ += "}}";
  }

  /// CUPTI also tells the driver calls that a runtime call makes; they would be
  /// counted twice. They come first, since they end first.
  void sort_call(const CallRecord& call) {
    std::deque<CallRecord>& held = held_calls_[call.thread];
    if (call.is_driver != 0) {
      held.push_back(call);
      if (held.size() <= kMostHeldCalls) return;
      write_call(held.front());
      held.pop_front();
      return;
    }
    for (const CallRecord& inner : held) {
      if (inner.begin < call.begin || inner.end > call.end) write_call(inner);
    }
    held.clear();
    write_call(call);
  }

  void write_call(const CallRecord& call) {
    begin_slice(call.is_driver != 0 ? "cuda_driver" : "cuda_runtime",
                json_quoted(plain_call(names_[call.name].plain)), process_.pid, call.thread,
                call.begin, call.end);
    argument(",\"args\":{\"correlation\":", call.correlation);
    text_ += "}}";
  }

  void write_sync(const SyncRecord& sync) {
    const std::string_view name = sync_text(sync.type);
    const std::int64_t stream = sync.stream == kNone ? -1 : std::int64_t{sync.stream};
    begin_slice("cuda_sync", json_quoted(name), process_.pid, stream, sync.begin, sync.end);
    argument(",\"args\":{\"correlation\":", sync.correlation);
    argument(",\"stream\":", stream);
    text_ += ",\"cuda_sync_kind\":" + json_quoted(name);
    if (sync.event != kNone) {
      argument(",\"wait_on_cuda_event_id\":", sync.event);
      if (const RecordedProcess::EventUse* use = last_use(sync)) {
        argument(",\"wait_on_stream\":", use->stream);
        argument(",\"wait_on_cuda_event_record_corr_id\":", use->correlation);
      }
    }
    text_ += "}}";
  }
  /// The newest record of the awaited event before the wait; correlations count
  /// calls.
  [[nodiscard]] const RecordedProcess::EventUse* last_use(const SyncRecord& sync) const {
    const auto uses = process_.event_uses.find(sync.event);
    if (uses == process_.event_uses.end()) return nullptr;
    const auto after = std::lower_bound(
        uses->second.begin(), uses->second.end(), sync.correlation,
        [](const auto& use, std::uint32_t correlation) { return use.correlation < correlation; });
    return after == uses->second.begin() ? nullptr : &*std::prev(after);
  }

  void write_marker(const MarkerRecord& mark) {
    if ((mark.flags & kMarkerStart) != 0) {
      open_ranges_[mark.id] = mark;
    } else if ((mark.flags & kMarkerEnd) != 0) {
      const auto open = open_ranges_.find(mark.id);
      if (open == open_ranges_.end()) return;
      write_range(open->second, mark.at);
      open_ranges_.erase(open);
    }
  }
  void write_range(const MarkerRecord& open, std::uint64_t end) {
    const Name& name = names_[open.name];
    const bool is_step = !step_prefix_.empty() && name.plain.starts_with(step_prefix_);
    std::string step;
    if (is_step) step = "\"ProfilerStep#" + std::to_string(steps_++) + '"';
    begin_slice("user_annotation", is_step ? step : name.json, process_.pid, open.thread, open.at,
                end);
    text_ += '}';
  }

  void write_overhead(const OverheadRecord& overhead) {
    begin_slice("overhead", json_quoted(overhead_text(overhead.kind)), process_.pid,
                overhead.thread, overhead.begin, overhead.end);
    text_ += '}';
  }

  void add_device(const DeviceRecord& device) {
    if (!devices_.empty()) devices_ += ',';
    const std::string& name = names_[device.name].json;
    devices_ += "{\"id\":" + std::to_string(device.id);
    if (!name.empty()) devices_ += ",\"name\":" + name;
    const auto add = [this](const char* key, std::uint64_t value) {
      devices_ += ",\"" + std::string(key) + "\":" + std::to_string(value);
    };
    const auto count = [](std::int32_t value) {
      return static_cast<std::uint64_t>(std::max(value, 0));
    };
    add("totalGlobalMem", device.memory_bytes);
    add("computeMajor", count(device.compute_major));
    add("computeMinor", count(device.compute_minor));
    add("numSms", count(device.sm_count));
    add("warpSize", count(device.warp_size));
    add("maxThreadsPerMultiprocessor", count(device.threads_per_sm));
    add("regsPerMultiprocessor", count(device.registers_per_sm));
    add("sharedMemPerMultiprocessor", count(device.shared_bytes_per_sm));
    devices_ += '}';
  }

  const RecordedProcess& process_;
  OutputFile out_;
  const std::string_view step_prefix_;
  std::string text_, devices_;
  bool is_first_ = true;
  std::uint64_t steps_ = 0;
  std::unordered_map<std::uint32_t, Name> names_;
  std::map<std::uint32_t, std::deque<CallRecord>> held_calls_;  ///< by thread
  std::unordered_map<std::uint32_t, MarkerRecord> open_ranges_;
};

}  // namespace

std::uint64_t write_trace(const RecordedProcess& process, const std::filesystem::path& out,
                          std::string_view step_prefix) {
  return TraceWriter(process, out, step_prefix).write();
}

}  // namespace tracecast::traces::cupti
