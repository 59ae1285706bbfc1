#pragma once
#include <string>
#include <vector>

#include "traces/summary.hpp"

namespace tracecast {

/// What `trace summary` prints: all ranks of one file together, and each.
struct TraceReport {
  traces::Summary total;
  std::vector<traces::Summary> ranks;
};

/// 80 columns.
[[nodiscard]] std::string trace_text(const TraceReport& report);
/// `file_hash`: SHA-256 of the file.
[[nodiscard]] std::string trace_json(const TraceReport& report, const std::string& file_name,
                                     const std::string& file_hash);
/// One line per class, convolution algorithm, call kind, copy kind and idle cause.
[[nodiscard]] std::string trace_csv(const TraceReport& report);

}  // namespace tracecast
