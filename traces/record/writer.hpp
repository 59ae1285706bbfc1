#pragma once
#include <cstdint>
#include <memory>

#include "traces/bytes/output_file.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Writes recordings in our own form (record.proto), piece by piece: memory for one block, for the
/// texts written so far and some 50 bytes for every ten thousand records. The order of calls: for
/// each trace `begin`, `append` as often as wanted, `end`; then `finish`. A file without `finish`
/// is refused by the reader.
class RecordWriter {
 public:
  /// `sink` takes the file's bytes in order, in pieces.
  explicit RecordWriter(ByteSink sink);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// A new trace: where it comes from, its rank, its devices.
  void begin(const Trace& trace);
  /// All records that `trace` holds now. Whoever records for long appends, empties the arrays of
  /// records and goes on; texts, streams, threads and geometries stay where they are. Collectives
  /// name kernels by their place among all that were appended.
  void append(const Trace& trace);
  /// The trace is complete: what was left out of it.
  void end(const Trace& trace);
  void finish();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// A whole recording.
void write_records(const Recording& recording, const ByteSink& sink);

}  // namespace tracecast::traces
