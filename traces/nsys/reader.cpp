#include "traces/nsys/reader.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/base/error.hpp"
#include "traces/nsys/database.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces {
namespace {

using nsys::Database, nsys::Rows;

std::uint32_t small(const std::optional<std::int64_t>& value) {
  return value && *value > 0 && *value <= 0xFFFFFFFF ? static_cast<std::uint32_t>(*value) : 0;
}

/// Codes of ENUM_CUDA_MEMCPY_OPER, which are CUPTI's.
CopyKind copy_kind(std::int64_t code) {
  switch (code) {
    case 1:
      return CopyKind::HostToDevice;
    case 2:
      return CopyKind::DeviceToHost;
    case 8:
      return CopyKind::DeviceToDevice;
    case 9:
      return CopyKind::HostToHost;
    case 10:
      return CopyKind::PeerToPeer;
    default:
      return CopyKind::Unknown;
  }
}

/// Codes of ENUM_CUDA_MEM_KIND: 0 pageable, 1 pinned, 2 device, 3 array, 4 managed.
HostMemory host_memory(const std::optional<std::int64_t>& from,
                       const std::optional<std::int64_t>& to) {
  for (const auto& kind : {from, to}) {
    if (kind == 0) return HostMemory::Pageable;
    if (kind == 1) return HostMemory::Pinned;
    if (kind == 4) return HostMemory::Managed;
  }
  return HostMemory::Unknown;
}

SyncKind sync_kind(std::int64_t code) {
  switch (code) {
    case 1:
      return SyncKind::Event;
    case 2:
      return SyncKind::StreamWaitEvent;
    case 3:
      return SyncKind::Stream;
    case 4:
      return SyncKind::Context;
    default:
      return SyncKind::Unknown;
  }
}

class NsysReader {
 public:
  explicit NsysReader(const std::filesystem::path& path) : database_(path), builder_(trace_) {
    trace_.source = database_.name();
    trace_.format = "Nsight Systems";
  }

  Trace read() {
    read_version();
    read_strings();
    bool has_cuda = read_kernels();
    has_cuda = read_copies() || has_cuda;
    has_cuda = read_memsets() || has_cuda;
    has_cuda = read_calls() || has_cuda;
    if (!has_cuda) {
      throw InputError(trace_.source, "no table of CUDA events",
                       "an Nsight Systems export of a run traced with --trace=cuda");
    }
    read_syncs();
    read_ranges();
    read_devices();
    return std::move(trace_);
  }

 private:
  void read_version() {
    for (const char* table : {"EXPORT_META_DATA", "META_DATA_EXPORT"}) {
      Rows rows(database_, table, {"name", "value"});
      while (rows.next()) {
        if (rows.text(0) == "EXPORT_SCHEMA_VERSION")
          trace_.format += ", schema " + rows.text(1).substr(0, 32);
      }
    }
  }

  void read_strings() {
    Rows rows(database_, "StringIds", {"id", "value"});
    while (rows.next()) {
      const auto id = rows.number(0);
      if (!id) continue;
      builder_.count_record(database_.bytes());
      strings_.emplace(*id, Text{rows.text(1), std::nullopt});
    }
  }

  /// The text of a row's string id; texts that NVTX writes out stand in `or_text`.
  NameId string(const std::optional<std::int64_t>& id, const std::string& or_text = "") {
    const auto found = id ? strings_.find(*id) : strings_.end();
    if (found == strings_.end()) return trace_.names.intern(or_text);
    Text& known = found->second;
    if (!known.name) {
      known.name = trace_.names.intern(known.text);
      std::string().swap(known.text);
    }
    return *known.name;
  }

  /// begin and end of a row; nothing, and a count, when they are of no use.
  std::optional<Span> span(const Rows& rows) {
    constexpr std::int64_t kLatest = std::int64_t{2'300'000'000'000'000'000};
    const auto begin = rows.number(0), end = rows.number(1);
    if (!begin || !end || *begin < -kLatest || *begin > kLatest || *end > kLatest ||
        *end < -kLatest) {
      trace_.leave_out("row without begin or end", true);
      return std::nullopt;
    }
    if (*end < *begin) {
      trace_.leave_out("row of negative duration", true);
      return std::nullopt;
    }
    builder_.count_record(database_.bytes());
    return Span{*begin, *end - *begin};
  }

  StreamId stream(const std::optional<std::int64_t>& device,
                  const std::optional<std::int64_t>& number) {
    return builder_.stream(device.value_or(-1), number.value_or(-1));
  }

  bool read_kernels() {
    Rows rows(database_, "CUPTI_ACTIVITY_KIND_KERNEL",
              {"start", "end", "deviceId", "streamId", "correlationId", "demangledName",
               "shortName", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
               "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"});
    while (rows.next()) {
      const auto time = span(rows);
      if (!time) continue;
      Geometry g;
      g.grid = {small(rows.number(7)), small(rows.number(8)), small(rows.number(9))};
      g.block = {small(rows.number(10)), small(rows.number(11)), small(rows.number(12))};
      g.registers_per_thread = small(rows.number(13));
      g.shared_bytes =
          small(static_cast<std::int64_t>(small(rows.number(14))) + small(rows.number(15)));
      Kernels& kernels = trace_.kernels;
      kernels.span.push_back(*time);
      kernels.name.push_back(
          string(rows.number(5) ? rows.number(5) : rows.number(6), "name not recorded"));
      kernels.stream.push_back(stream(rows.number(2), rows.number(3)));
      kernels.geometry.push_back(builder_.geometry(g));
      kernels.correlation.push_back(small(rows.number(4)));
      kernels.op.push_back(0);
    }
    return static_cast<bool>(rows);
  }

  bool read_copies() {
    Rows rows(database_, "CUPTI_ACTIVITY_KIND_MEMCPY",
              {"start", "end", "deviceId", "streamId", "correlationId", "bytes", "copyKind",
               "srcKind", "dstKind"});
    while (rows.next()) {
      const auto time = span(rows);
      if (!time) continue;
      Copies& copies = trace_.copies;
      copies.span.push_back(*time);
      copies.stream.push_back(stream(rows.number(2), rows.number(3)));
      copies.kind.push_back(copy_kind(rows.number(6).value_or(0)));
      copies.memory.push_back(host_memory(rows.number(7), rows.number(8)));
      copies.bytes.push_back(
          static_cast<std::uint64_t>(std::max<std::int64_t>(rows.number(5).value_or(0), 0)));
      copies.correlation.push_back(small(rows.number(4)));
      copies.op.push_back(0);
    }
    return static_cast<bool>(rows);
  }

  bool read_memsets() {
    Rows rows(database_, "CUPTI_ACTIVITY_KIND_MEMSET",
              {"start", "end", "deviceId", "streamId", "correlationId", "bytes"});
    while (rows.next()) {
      const auto time = span(rows);
      if (!time) continue;
      Memsets& memsets = trace_.memsets;
      memsets.span.push_back(*time);
      memsets.stream.push_back(stream(rows.number(2), rows.number(3)));
      memsets.bytes.push_back(
          static_cast<std::uint64_t>(std::max<std::int64_t>(rows.number(5).value_or(0), 0)));
      memsets.correlation.push_back(small(rows.number(4)));
      memsets.op.push_back(0);
    }
    return static_cast<bool>(rows);
  }

  ThreadId thread(const std::optional<std::int64_t>& global_tid) {
    return builder_.thread("", std::to_string(global_tid.value_or(0)));
  }

  /// "cudaLaunchKernel_v7000" without the version.
  static std::string plain_call_name(std::string_view name) {
    const std::size_t version = name.rfind("_v");
    const bool has_version =
        version != std::string_view::npos && version + 2 < name.size() &&
        name.find_first_not_of("0123456789", version + 2) == std::string_view::npos;
    return std::string(has_version ? name.substr(0, version) : name);
  }

  NameId call_name(NameId recorded) {
    const auto [at, is_new] = call_names_.try_emplace(recorded);
    if (is_new) at->second = trace_.names.intern(plain_call_name(trace_[recorded]));
    return at->second;
  }

  bool read_calls() {
    Rows rows(database_, "CUPTI_ACTIVITY_KIND_RUNTIME",
              {"start", "end", "globalTid", "correlationId", "nameId"});
    while (rows.next()) {
      const auto time = span(rows);
      if (!time) continue;
      Calls& calls = trace_.calls;
      calls.span.push_back(*time);
      calls.name.push_back(call_name(string(rows.number(4), "name not recorded")));
      calls.thread.push_back(thread(rows.number(2)));
      calls.correlation.push_back(small(rows.number(3)));
      calls.op.push_back(0);
    }
    return static_cast<bool>(rows);
  }

  void read_syncs() {
    Rows rows(database_, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
              {"start", "end", "streamId", "correlationId", "syncType", "eventId"});
    while (rows.next()) {
      const auto time = span(rows);
      if (!time) continue;
      Syncs& syncs = trace_.syncs;
      syncs.span.push_back(*time);
      syncs.kind.push_back(sync_kind(rows.number(4).value_or(0)));
      syncs.stream.push_back(rows.number(2).value_or(-1));
      syncs.awaited_stream.push_back(-1);
      syncs.awaited_event.push_back(rows.number(5).value_or(-1));
      syncs.awaited_record.push_back(-1);
      syncs.correlation.push_back(small(rows.number(3)));
    }
  }

  void read_ranges() {
    Rows rows(database_, "NVTX_EVENTS", {"start", "end", "text", "textId", "globalTid"});
    while (rows.next()) {
      if (!rows.number(1)) {
        trace_.leave_out("NVTX mark without an end");
        continue;
      }
      const auto time = span(rows);
      if (!time) continue;
      Marks& marks = trace_.marks;
      marks.span.push_back(*time);
      marks.name.push_back(string(rows.number(3), rows.text(2)));
      marks.thread.push_back(thread(rows.number(4)));
      marks.on_gpu.push_back(false);
    }
  }

  void read_devices() {
    Rows rows(database_, "TARGET_INFO_GPU",
              {"cuDevice", "id", "name", "totalMemory", "computeMajor", "computeMinor", "smCount",
               "threadsPerWarp", "maxWarpsPerSm", "maxRegistersPerSm", "maxShmemPerSm"});
    while (rows.next() && trace_.devices.size() < 1024) {
      Device device;
      device.id = rows.number(0).value_or(rows.number(1).value_or(-1));
      device.name = rows.text(2);
      device.memory_bytes =
          static_cast<std::uint64_t>(std::max<std::int64_t>(rows.number(3).value_or(0), 0));
      device.compute_major = static_cast<int>(small(rows.number(4)) & 0xFF);
      device.compute_minor = static_cast<int>(small(rows.number(5)) & 0xFF);
      device.sm_count = static_cast<int>(small(rows.number(6)) & 0xFFFF);
      device.warp_size = static_cast<int>(small(rows.number(7)) & 0xFF);
      device.max_threads_per_sm =
          static_cast<int>(small(rows.number(8)) & 0xFFFF) * device.warp_size;
      device.registers_per_sm = small(rows.number(9));
      device.shared_bytes_per_sm = small(rows.number(10));
      trace_.devices.push_back(std::move(device));
    }
  }

  Database database_;
  Trace trace_;
  TraceBuilder builder_;
  /// Only what records name goes into the trace: the table holds host names and settings too.
  struct Text {
    std::string text;
    std::optional<NameId> name;
  };
  std::unordered_map<std::int64_t, Text> strings_;
  std::map<NameId, NameId> call_names_;  ///< without the version
};

}  // namespace

Trace read_nsys(const std::filesystem::path& path) { return NsysReader(path).read(); }

}  // namespace tracecast::traces
