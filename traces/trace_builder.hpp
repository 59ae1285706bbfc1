#pragma once
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>

#include "traces/trace.hpp"

namespace tracecast::traces {

/// Fills a Trace: what readers share. Numbers for streams, threads and geometries, each kept once;
/// a limit on records.
class TraceBuilder {
 public:
  explicit TraceBuilder(Trace& trace);

  StreamId stream(std::int64_t device, std::int64_t number);
  ThreadId thread(std::string_view process, std::string_view thread);
  GeometryId geometry(const Geometry& geometry);
  /// Counts one record; throws InputError beyond 64 million: the file would not fit into memory.
  void count_record();
  /// Likewise of a file of which `bytes` were read, unpacked: throws InputError where more than
  /// 100,000 records take less than `least` bytes each. No profiler writes so little of an event,
  /// and it would take many times its size in memory.
  void count_record(std::uint64_t bytes, std::uint64_t least = kLeastBytes);
  static constexpr std::uint64_t kLeastBytes = 16;

 private:
  Trace& trace_;
  std::map<Stream, StreamId> streams_;
  std::map<std::pair<std::string, std::string>, ThreadId> threads_;
  std::map<Geometry, GeometryId> geometries_;
  StreamId last_stream_{};
  ThreadId last_thread_{};
  std::uint64_t records_ = 0;
};

/// Microseconds as decimal text ("1712195495520824.518") in nanoseconds: exact to the third
/// decimal, then rounded to nearest. Nothing when it is no number or beyond 2.3e18 ns (2042).
[[nodiscard]] std::optional<std::int64_t> nanoseconds_of_us(std::string_view text);

}  // namespace tracecast::traces
