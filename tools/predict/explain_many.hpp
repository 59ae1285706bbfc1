#pragma once
#include <string>

#include "sim/job/largest_batch.hpp"
#include "sim/job/many_gpus.hpp"

namespace tracecast {

/// Kernels and copies of one step on all GPUs together, by class, as a profiler sums them up:
/// collectives count on every GPU from the start of their kernel.
[[nodiscard]] std::string explain_many_text(const ResolvedJob& job, const ManyGpus& many);
/// report_many_json with `device_time` [{class, time_s, share, calls}] and, of a process with
/// several GPUs, `host_calls`.
[[nodiscard]] std::string explain_many_json(const ResolvedJob& job, const ManyGpus& many,
                                            const MemoryAdvice& advice);
/// class,time_s,share,calls
[[nodiscard]] std::string explain_many_csv(const ResolvedJob& job, const ManyGpus& many);

}  // namespace tracecast
