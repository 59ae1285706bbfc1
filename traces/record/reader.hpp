#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/trace.hpp"

namespace tracecast::traces {

class ByteSource;

/// Whether a file that begins so is one of ours (record.proto), of whatever version.
[[nodiscard]] bool is_record_file(std::string_view head);

/// Reads a file of ours from begin to end, a block at a time. Throws InputError, with the byte,
/// when it is damaged, incomplete (its writer was stopped) or of another version.
[[nodiscard]] Recording read_records(ByteSource& source, const std::string& name);

/// A step that the index of a file lists.
struct IndexedStep {
  std::uint32_t trace = 0;
  std::string name;
  Span span;
};

/// What the index at the end of a file of ours says. Throws InputError; also for a packed file, in
/// which nothing can be sought.
struct RecordIndex {
  std::uint32_t traces = 0;
  std::uint64_t blocks = 0, records = 0;
  std::optional<std::int64_t> begin_ns;  ///< of the earliest record that has a time
  std::vector<IndexedStep> steps;
};
[[nodiscard]] RecordIndex read_record_index(const std::filesystem::path& path);

/// The traces of a file of ours with those records that lie within `range` in part or whole (times
/// since Trace::epoch_ns), and all that have no time. Goes from the index to the blocks in question
/// and does not read the others: the time is that of what it returns. Throws InputError.
[[nodiscard]] Recording read_records_within(const std::filesystem::path& path, const Span& range);

}  // namespace tracecast::traces
