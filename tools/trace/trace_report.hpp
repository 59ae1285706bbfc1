#pragma once
#include <string>
#include <vector>

#include "tools/trace/trace_ranks.hpp"
#include "traces/summary.hpp"

namespace tracecast {

/// What `trace summary` prints: all ranks together, each, and what they wait for.
struct TraceReport {
  traces::Summary total;
  std::vector<traces::Summary> ranks;
  RankFindings findings;
};
/// A file that was read.
struct TraceFile {
  std::string name, sha256;
};

/// 80 columns.
[[nodiscard]] std::string trace_text(const TraceReport& report);
[[nodiscard]] std::string trace_json(const TraceReport& report,
                                     const std::vector<TraceFile>& files);
/// One line per class, convolution algorithm, call kind, copy kind and idle cause.
[[nodiscard]] std::string trace_csv(const TraceReport& report);

}  // namespace tracecast
