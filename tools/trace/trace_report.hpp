#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/timeline.hpp"
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

/// Of kernels that cover later ones of their stream, with counts; empty where there are none.
[[nodiscard]] std::string overrun_warning(const traces::Summary& summary);

/// 80 columns.
[[nodiscard]] std::string trace_text(const TraceReport& report);
[[nodiscard]] std::string trace_json(const TraceReport& report,
                                     const std::vector<TraceFile>& files);
/// A page (tools/report/page.hpp); `timeline`: of the recording, null where it holds no times.
[[nodiscard]] nlohmann::ordered_json trace_page(const TraceReport& report,
                                                const Timeline* timeline);
/// One line per class, convolution algorithm, call kind, copy kind and idle cause.
[[nodiscard]] std::string trace_csv(const TraceReport& report);

}  // namespace tracecast
