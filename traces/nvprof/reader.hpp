#pragma once
#include <string>

#include "traces/bytes/byte_source.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Reads what nvprof prints, text or `--csv` (with commas or tabs), several tables in one log:
/// - `--print-gpu-trace`: kernels, copies and memsets with times, streams and geometry,
/// - the summary: sums by name of GPU activities and API calls,
/// - `--metrics`: counters by kernel.
/// Units come from the units row of a CSV table, or from behind each number ("1.67ms"); KB and MB
/// are 2^10 and 2^20 bytes, as nvprof counts. Unified-memory figures, errors and warnings of nvprof
/// and the program's own output are left out and counted. Throws InputError when there is no table
/// and no word of nvprof at all.
[[nodiscard]] Trace read_nvprof(ByteSource& source, const std::string& name);

/// Whether the beginning of a text looks like nvprof's.
[[nodiscard]] bool is_nvprof(std::string_view head);

}  // namespace tracecast::traces
