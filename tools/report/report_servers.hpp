#pragma once
#include <string>

#include "sim/job/largest_batch.hpp"
#include "sim/job/mode/server_job.hpp"

namespace tracecast {

/// A job with parameter servers: throughput over all workers, where a step goes, how busy the
/// servers are, staleness; memory is one worker's.
[[nodiscard]] std::string report_servers_text(const ResolvedJob& job, const ServerPrediction& p,
                                              const MemoryAdvice& advice);
[[nodiscard]] std::string report_servers_json(const ResolvedJob& job, const ServerPrediction& p,
                                              const MemoryAdvice& advice);
[[nodiscard]] std::string report_servers_csv(const ResolvedJob& job, const ServerPrediction& p,
                                             const MemoryAdvice& advice);

}  // namespace tracecast
