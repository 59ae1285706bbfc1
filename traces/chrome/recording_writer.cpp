#include "traces/chrome/recording_writer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "sim/base/foreign_text.hpp"
#include "traces/chrome/event_text.hpp"

namespace tracecast::traces {
namespace {

using chrome::EventText;

/// A list as it is, anything else quoted.
std::string list_text(std::string_view text) {
  const bool is_list = text.starts_with('[') && nlohmann::json::accept(text);
  return is_list ? printable_page(text) : json_quoted(text);
}

/// A number as it is, anything else quoted.
std::string id_text(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  const bool is_number = !digits.empty() && digits.size() < 16 &&
                         digits.find_first_not_of("0123456789") == std::string_view::npos &&
                         (digits.size() == 1 || digits[0] != '0');
  return is_number ? std::string(text) : json_quoted(text);
}

/// As the profiler names copies: what is read back from the name.
std::string copy_name(CopyKind kind, HostMemory memory) {
  std::string host = "Host";
  if (memory == HostMemory::Pageable) host = "Pageable";
  if (memory == HostMemory::Pinned) host = "Pinned";
  if (memory == HostMemory::Managed) host = "Managed";
  const std::string device = memory == HostMemory::Unknown ? "Device" : host;
  switch (kind) {
    case CopyKind::HostToDevice:
      return "Memcpy HtoD (" + host + " -> Device)";
    case CopyKind::DeviceToHost:
      return "Memcpy DtoH (Device -> " + host + ")";
    case CopyKind::DeviceToDevice:
      return "Memcpy DtoD (Device -> " + device + ")";
    case CopyKind::PeerToPeer:
      return "Memcpy PtoP (Device -> " + device + ")";
    case CopyKind::HostToHost:
      return "Memcpy HtoH (" + host + " -> " + host + ")";
    case CopyKind::Unknown:
      break;
  }
  return "Memcpy (" + host + ")";
}

const char* sync_name(SyncKind kind) {
  switch (kind) {
    case SyncKind::Event:
      return "Event Sync";
    case SyncKind::StreamWaitEvent:
      return "Stream Wait Event";
    case SyncKind::Stream:
      return "Stream Sync";
    case SyncKind::Context:
      return "Context Sync";
    case SyncKind::Unknown:
      break;
  }
  return "Sync";
}

class RecordingText {
 public:
  RecordingText(const Trace& trace, const ByteSink& sink) : trace_(trace), text_(sink) {
    for (const Thread& thread : trace.threads) {
      threads_.push_back(",\"pid\":" + id_text(thread.process) +
                         ",\"tid\":" + id_text(thread.thread));
    }
    for (const Stream& stream : trace.streams) {
      streams_.push_back(",\"pid\":" + std::to_string(stream.device) +
                         ",\"tid\":" + std::to_string(stream.number));
    }
    for (std::uint32_t i = 0; i < trace.collectives.size(); ++i) {
      const std::uint32_t kernel = trace.collectives.kernel[i];
      if (kernel == Collectives::kNone) {
        of_ops_.push_back(i);
      } else {
        of_kernels_.emplace(kernel, i);
      }
    }
  }

  void write() {
    write_head();
    write_kernels();
    write_copies();
    write_memsets();
    write_calls();
    write_syncs();
    write_ops();
    write_marks();
    write_arrows();
    write_allocations();
    text_ += "\n]}\n";
    text_.flush();
  }

 private:
  void write_head() {
    text_ += "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":";
    text_.number(trace_.epoch_ns);
    if (trace_.rank || trace_.world_size) {
      text_ += ",\"distributedInfo\":{";
      if (trace_.rank) text_ += "\"rank\":" + std::to_string(*trace_.rank);
      if (trace_.rank && trace_.world_size) text_ += ',';
      if (trace_.world_size) text_ += "\"world_size\":" + std::to_string(*trace_.world_size);
      text_ += '}';
    }
    text_ += ",\"deviceProperties\":[";
    bool is_first = true;
    for (const Device& device : trace_.devices) {
      text_ += is_first ? "{\"id\":" : ",{\"id\":";
      is_first = false;
      text_.number(device.id);
      text_ += ",\"name\":" + json_quoted(device.name);
      member("totalGlobalMem", static_cast<std::int64_t>(device.memory_bytes));
      member("computeMajor", device.compute_major);
      member("computeMinor", device.compute_minor);
      member("numSms", device.sm_count);
      member("warpSize", device.warp_size);
      member("maxThreadsPerMultiprocessor", device.max_threads_per_sm);
      member("regsPerMultiprocessor", static_cast<std::int64_t>(device.registers_per_sm));
      member("sharedMemPerMultiprocessor", static_cast<std::int64_t>(device.shared_bytes_per_sm));
      text_ += '}';
    }
    text_ += "],\"traceEvents\":[";
  }

  // An event: its head, its arguments, its end.

  void begin(char phase, std::string_view category, const std::string& name,
             const std::string& place, std::int64_t at_ns) {
    text_.begin_event("{\"ph\":\"");
    text_ += phase;
    text_ += "\",\"cat\":\"";
    text_ += category;
    text_ += "\",\"name\":";
    text_ += name;
    text_ += place;
    text_ += ",\"ts\":";
    text_.microseconds(at_ns);
  }
  void begin(std::string_view category, const std::string& name, const std::string& place,
             const Span& span) {
    begin('X', category, name, place, span.begin_ns);
    text_ += ",\"dur\":";
    text_.microseconds(span.duration_ns);
    text_ += ",\"args\":{";
    has_argument_ = false;
  }
  void end() { text_ += "}}"; }

  void key(std::string_view name) {
    if (has_argument_) text_ += ',';
    has_argument_ = true;
    text_ += '"';
    text_ += name;
    text_ += "\":";
  }
  void member(std::string_view name, std::int64_t value) {
    has_argument_ = true;
    key(name);
    text_.number(value);
  }
  void argument(std::string_view name, std::int64_t value) {
    key(name);
    text_.number(value);
  }
  void argument(std::string_view name, const std::string& json) {
    key(name);
    text_ += json;
  }
  void known(std::string_view name, std::int64_t value, std::int64_t not_recorded = 0) {
    if (value != not_recorded) argument(name, value);
  }
  void list(std::string_view name, NameId id) {
    if (id.index == 0) return;
    if (lists_.size() < trace_.names.size()) lists_.resize(trace_.names.size());
    std::string& list = lists_[id.index];
    if (list.empty()) list = list_text(trace_[id]);
    argument(name, list);
  }
  void extent(std::string_view name, const std::array<std::uint32_t, 3>& sizes) {
    argument(name, "[" + std::to_string(sizes[0]) + "," + std::to_string(sizes[1]) + "," +
                       std::to_string(sizes[2]) + "]");
  }
  void ids(std::uint32_t external_id, std::uint32_t correlation) {
    known("External id", external_id);
    known("correlation", correlation);
  }
  void stream(StreamId id) {
    argument("device", trace_.streams[id.index].device);
    argument("stream", trace_.streams[id.index].number);
  }
  void collective(std::uint32_t index) {
    const Collectives& c = trace_.collectives;
    argument("Collective name", quoted(c.name[index]));
    if (c.data_type[index].index != 0) argument("dtype", quoted(c.data_type[index]));
    argument("In msg nelems", c.in_elements[index]);
    argument("Out msg nelems", c.out_elements[index]);
    argument("Group size", c.group_size[index]);
    if (c.group[index].index != 0) argument("Process Group Name", quoted(c.group[index]));
  }
  /// A name in quotes; each is made once.
  const std::string& quoted(NameId id) {
    if (names_.size() < trace_.names.size()) names_.resize(trace_.names.size());
    std::string& name = names_[id.index];
    if (name.empty()) name = json_quoted(trace_[id]);
    return name;
  }

  void write_kernels() {
    const Kernels& k = trace_.kernels;
    for (std::size_t i = 0; i < k.size(); ++i) {
      begin("kernel", quoted(k.name[i]), streams_[k.stream[i].index], k.span[i]);
      stream(k.stream[i]);
      ids(k.op[i], k.correlation[i]);
      if (k.geometry[i].index != 0) {
        const Geometry& g = trace_.geometries[k.geometry[i].index];
        known("registers per thread", g.registers_per_thread);
        known("shared memory", g.shared_bytes);
        extent("grid", g.grid);
        extent("block", g.block);
      }
      const auto found = of_kernels_.find(static_cast<std::uint32_t>(i));
      if (found != of_kernels_.end()) collective(found->second);
      end();
    }
  }
  void write_copies() {
    const Copies& c = trace_.copies;
    for (std::size_t i = 0; i < c.size(); ++i) {
      begin("gpu_memcpy", json_quoted(copy_name(c.kind[i], c.memory[i])),
            streams_[c.stream[i].index], c.span[i]);
      stream(c.stream[i]);
      ids(c.op[i], c.correlation[i]);
      known("bytes", static_cast<std::int64_t>(c.bytes[i]));
      end();
    }
  }
  void write_memsets() {
    const Memsets& m = trace_.memsets;
    for (std::size_t i = 0; i < m.size(); ++i) {
      begin("gpu_memset", "\"Memset (Device)\"", streams_[m.stream[i].index], m.span[i]);
      stream(m.stream[i]);
      ids(m.op[i], m.correlation[i]);
      known("bytes", static_cast<std::int64_t>(m.bytes[i]));
      end();
    }
  }
  void write_calls() {
    const Calls& c = trace_.calls;
    for (std::size_t i = 0; i < c.size(); ++i) {
      begin("cuda_runtime", quoted(c.name[i]), threads_[c.thread[i].index], c.span[i]);
      ids(c.op[i], c.correlation[i]);
      end();
    }
  }
  void write_syncs() {
    const Syncs& s = trace_.syncs;
    for (std::size_t i = 0; i < s.size(); ++i) {
      const std::string name = json_quoted(sync_name(s.kind[i]));
      begin("cuda_sync", name,
            ",\"pid\":\"synchronisation\",\"tid\":" + std::to_string(s.stream[i]), s.span[i]);
      argument("cuda_sync_kind", name);
      known("stream", s.stream[i], -1);
      known("wait_on_stream", s.awaited_stream[i], -1);
      known("wait_on_cuda_event_record_corr_id", s.awaited_record[i], -1);
      known("wait_on_cuda_event_id", s.awaited_event[i], -1);
      known("correlation", s.correlation[i]);
      end();
    }
  }
  /// PyTorch annotates its collectives; the reader makes an operator and a mark of one annotation.
  [[nodiscard]] bool is_both(NameId name) const { return trace_[name].starts_with("nccl:"); }
  void write_ops() {
    const Ops& o = trace_.ops;
    std::size_t next =
        0;  // of the collectives that operators recorded, in the order of the operators
    for (std::size_t i = 0; i < o.size(); ++i) {
      begin(is_both(o.name[i]) ? "user_annotation" : "cpu_op", quoted(o.name[i]),
            threads_[o.thread[i].index], o.span[i]);
      known("External id", o.id[i]);
      list("Input Dims", o.dims[i]);
      list("Input type", o.types[i]);
      list("Concrete Inputs", o.values[i]);
      known("Sequence number", o.sequence[i], -1);
      known("Fwd thread id", o.forward_thread[i]);
      if (next < of_ops_.size() && trace_.collectives.op[of_ops_[next]] == o.id[i])
        collective(of_ops_[next++]);
      end();
    }
  }
  void write_marks() {
    const Marks& m = trace_.marks;
    for (std::size_t i = 0; i < m.size(); ++i) {
      if (!m.on_gpu[i] && is_both(m.name[i])) continue;
      begin(m.on_gpu[i] ? "gpu_user_annotation" : "user_annotation", quoted(m.name[i]),
            threads_[m.thread[i].index], m.span[i]);
      end();
    }
  }

  /// Arrows: from calls to GPU work, and from forward to backward operators.
  void write_arrows() {
    std::unordered_map<std::uint32_t, std::size_t> call_of;
    for (std::size_t i = 0; i < trace_.calls.size(); ++i) {
      if (trace_.calls.correlation[i] != 0) call_of.emplace(trace_.calls.correlation[i], i);
    }
    const auto launches = [&](const auto& work) {
      for (std::size_t i = 0; i < work.size(); ++i) {
        const auto call = call_of.find(work.correlation[i]);
        if (call == call_of.end()) continue;
        arrow('s', "ac2g", work.correlation[i], threads_[trace_.calls.thread[call->second].index],
              trace_.calls.span[call->second].begin_ns);
        arrow('f', "ac2g", work.correlation[i], streams_[work.stream[i].index],
              work.span[i].begin_ns);
      }
    };
    launches(trace_.kernels);
    launches(trace_.copies);
    launches(trace_.memsets);
    const ForwardBackward& f = trace_.forward_backward;
    for (std::size_t i = 0; i < f.size(); ++i) {
      arrow(f.is_backward[i] ? 'f' : 's', "fwdbwd", f.id[i], threads_[f.thread[i].index],
            f.at_ns[i]);
    }
  }
  void arrow(char phase, const char* category, std::int64_t id, const std::string& place,
             std::int64_t at_ns) {
    begin(phase, category, "\"" + std::string(category) + "\"", place, at_ns);
    text_ += ",\"id\":";
    text_.number(id);
    text_ += phase == 'f' ? ",\"bp\":\"e\"}" : "}";
  }

  void write_allocations() {
    const Allocations& a = trace_.allocations;
    for (std::size_t i = 0; i < a.size(); ++i) {
      begin('i', "cpu_instant_event", "\"[memory]\"", ",\"pid\":\"memory\",\"tid\":0", a.at_ns[i]);
      text_ += ",\"s\":\"t\",\"args\":{";
      has_argument_ = false;
      argument("Device Type", a.device[i] < 0 ? 0 : 1);
      argument("Device Id", a.device[i]);
      argument("Bytes", a.bytes[i]);
      known("Total Allocated", a.total_allocated[i], -1);
      known("Total Reserved", a.total_reserved[i], -1);
      end();
    }
  }

  const Trace& trace_;
  std::vector<std::string> threads_, streams_;  ///< "pid" and "tid" of each
  std::vector<std::string> names_, lists_;      ///< as JSON, made when first met
  std::unordered_map<std::uint32_t, std::uint32_t> of_kernels_;
  std::vector<std::uint32_t> of_ops_;
  EventText text_;
  bool has_argument_ = false;
};

}  // namespace

void write_chrome_recording(const Trace& trace, const ByteSink& sink) {
  RecordingText(trace, sink).write();
}

}  // namespace tracecast::traces
