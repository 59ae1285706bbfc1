#pragma once
#include <string>

#include "tools/largest_batch.hpp"
#include "tools/many_gpus.hpp"

namespace tracecast {

/// Kernels and copies of one step on all GPUs together, by class, as a profiler sums them up: collectives count on every GPU
/// from the start of their kernel.
[[nodiscard]] std::string explain_many_text(const Job& job, const ManyGpus& many,
                                            const Sources& sources);
/// report_many_json with `device_time` [{class, time_s, share, calls}] and, of a process with several GPUs, `host_calls`.
[[nodiscard]] std::string explain_many_json(const Job& job, const ManyGpus& many,
                                            const Sources& sources, const MemoryAdvice& advice);
/// class,time_s,share,calls
[[nodiscard]] std::string explain_many_csv(const Job& job, const ManyGpus& many,
                                           const Sources& sources);

}  // namespace tracecast
