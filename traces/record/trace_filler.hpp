#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/record/record.pb.h"
#include "traces/trace.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces::record {

/// Fills a Trace from blocks in the order of the file, checking every value: nothing refers to what
/// is not there, times stay within bounds. Private to the folder.
class TraceFiller {
 public:
  explicit TraceFiller(Trace& trace) : trace_(trace), builder_(trace) {}
  /// What is wrong with the block, in words; empty when it was taken.
  [[nodiscard]] std::string take(Kind kind, std::uint32_t records, std::string_view unpacked);
  /// Passes over a block of kernels: later ones keep their places.
  void skip_kernels(std::uint32_t records) { kernels_seen_ += records; }
  /// The trace is complete. What is wrong with it.
  [[nodiscard]] std::string finish();

 private:
  /// Kernels that stand together in file and memory.
  struct Run {
    std::uint64_t first_in_file = 0, first = 0, count = 0;
  };

  std::string take_head(std::string_view bytes);
  std::string take_texts(std::string_view bytes, std::uint32_t records);
  std::string take_tail(std::string_view bytes);
  std::string take_references(Kind kind, std::uint32_t records, const Records& columns);
  std::string take_records(Kind kind, std::uint32_t records, const Records& columns);
  std::string take_dependencies(const Records& columns, std::uint32_t records);
  void count_records(std::uint32_t records);

  Trace& trace_;
  TraceBuilder builder_;
  std::vector<NameId> texts_{NameId{}};
  std::vector<StreamId> streams_;
  std::vector<ThreadId> threads_;
  std::vector<GeometryId> geometries_{GeometryId{}};
  std::vector<Run> kernel_runs_;
  std::uint64_t kernels_seen_ = 0;
  std::uint64_t bytes_ = 0;  ///< of blocks, unpacked
};

}  // namespace tracecast::traces::record
