#include "traces/nsys/reader.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/base/error.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};

/// A file opened for reading only.
class Database {
 public:
  explicit Database(const std::filesystem::path& path) : name_(path.filename().string()) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    database_.reset(opened);
    if (code != SQLITE_OK) fail();
    sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, 16 << 20);
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::unique_ptr<sqlite3_stmt, EndStatement> prepare(const std::string& sql) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK)
      fail();
    return std::unique_ptr<sqlite3_stmt, EndStatement>(statement);
  }
  /// Whether there is another row.
  bool step(sqlite3_stmt* statement) const {
    const int code = sqlite3_step(statement);
    if (code != SQLITE_ROW && code != SQLITE_DONE) fail();
    return code == SQLITE_ROW;
  }
  /// Lower-case names of a table's columns; empty when there is no such table.
  [[nodiscard]] std::set<std::string> columns(const std::string& table) const {
    std::set<std::string> names;
    const auto statement = prepare("SELECT name FROM pragma_table_info('" + table + "')");
    while (step(statement.get())) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement.get(), 0));
      if (text != nullptr) names.insert(text);
    }
    return names;
  }

 private:
  [[noreturn]] void fail() const {
    throw InputError(name_, database_ ? sqlite3_errmsg(database_.get()) : "out of memory",
                     "an SQLite export of Nsight Systems");
  }

  std::string name_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
};

/// The rows of one table, by column; a column that the table lacks reads as nothing.
class Rows {
 public:
  Rows(const Database& database, const std::string& table, const std::vector<std::string>& wanted)
      : database_(database) {
    const std::set<std::string> there = database.columns(table);
    if (there.empty()) return;
    std::string list;
    for (const std::string& column : wanted) {
      list += (list.empty() ? "" : ", ") +
              (there.count(column) > 0 ? "\"" + column + "\"" : std::string("NULL"));
    }
    statement_ = database.prepare("SELECT " + list + " FROM \"" + table + "\"");
  }
  /// The table is there.
  [[nodiscard]] explicit operator bool() const { return statement_ != nullptr; }
  bool next() { return statement_ != nullptr && database_.step(statement_.get()); }
  [[nodiscard]] std::optional<std::int64_t> number(int column) const {
    if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_column_int64(statement_.get(), column);
  }
  [[nodiscard]] std::string text(int column) const {
    const auto* bytes =
        reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    return bytes == nullptr ? std::string()
                            : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(
                                                     statement_.get(), column)));
  }

 private:
  const Database& database_;
  std::unique_ptr<sqlite3_stmt, EndStatement> statement_;
};

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
      builder_.count_record();
      strings_.emplace(*id, rows.text(1));
    }
  }

  /// The text of a row's string id; texts that NVTX writes out stand in `or_text`.
  NameId string(const std::optional<std::int64_t>& id, const std::string& or_text = "") {
    const auto found = id ? strings_.find(*id) : strings_.end();
    if (found != strings_.end()) return trace_.names.intern(found->second);
    return trace_.names.intern(or_text);
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
    builder_.count_record();
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

  bool read_calls() {
    Rows rows(database_, "CUPTI_ACTIVITY_KIND_RUNTIME",
              {"start", "end", "globalTid", "correlationId", "nameId"});
    while (rows.next()) {
      const auto time = span(rows);
      if (!time) continue;
      Calls& calls = trace_.calls;
      calls.span.push_back(*time);
      calls.name.push_back(trace_.names.intern(
          plain_call_name(trace_[string(rows.number(4), "name not recorded")])));
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
  std::unordered_map<std::int64_t, std::string> strings_;
};

}  // namespace

Trace read_nsys(const std::filesystem::path& path) { return NsysReader(path).read(); }

}  // namespace tracecast::traces
