#pragma once
#include <string>
#include <vector>

#include "sim/job/largest_batch.hpp"
#include "sim/job/many_gpus.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// " (chosen for "a100")" where a GPU was asked for by another word than its id; else nothing.
[[nodiscard]] std::string chosen_for(const std::string& word, const GpuSpec& gpu);

/// A prediction for people, at most 80 columns wide.
[[nodiscard]] std::string report_text(const ResolvedJob& job, const Prediction& prediction,
                                      const MemoryAdvice& advice);
/// Its lines about `memory`, of the fullest rank: the classes, what nvidia-smi shows, and what
/// would fit.
[[nodiscard]] std::vector<std::string> memory_lines(const ResolvedJob& job,
                                                    const Prediction& prediction,
                                                    const MemoryPlan& memory,
                                                    const MemoryAdvice& advice);
/// The JSON document of DESIGN.md section 7; with `layers` also the table by layer.
[[nodiscard]] std::string report_json(const ResolvedJob& job, const Prediction& prediction,
                                      const MemoryAdvice& advice, bool with_layers);
/// A header line and one row; with `largest_batch` a column of it.
[[nodiscard]] std::string report_csv(const ResolvedJob& job, const Prediction& prediction,
                                     std::optional<std::int64_t> largest_batch);

/// The table by layer, at most 80 columns wide.
[[nodiscard]] std::string explain_text(const ResolvedJob& job, const Prediction& prediction);
/// The same as CSV, every column ending in its unit.
[[nodiscard]] std::string explain_csv(const ResolvedJob& job, const Prediction& prediction);

/// `--dump kernels`: every op with its candidates, the chosen one marked.
[[nodiscard]] std::string dump_kernels(const ResolvedJob& job, const Prediction& prediction);
/// `--dump program`: what the host does and what runs when, one line per action.
[[nodiscard]] std::string dump_program(const ResolvedJob& job, const Prediction& prediction);

/// Appends what several GPUs do together: samples per second, a step's time beside one GPU's,
/// efficiency.
void add_rates(std::string& page, const Interval& samples_per_s, const Interval& step_time_s,
               const Prediction& one_gpu, double efficiency);
/// The same of a job on many GPUs: throughput over all, efficiency, where a step goes, links;
/// memory is one GPU's.
[[nodiscard]] std::string report_many_text(const ResolvedJob& job, const ManyGpus& many,
                                           const MemoryAdvice& advice);
[[nodiscard]] std::string report_many_json(const ResolvedJob& job, const ManyGpus& many,
                                           const MemoryAdvice& advice);
[[nodiscard]] std::string report_many_csv(const ResolvedJob& job, const ManyGpus& many,
                                          const MemoryAdvice& advice);
/// What each kind of rank computes and what is communicated when, one line per span of a step.
[[nodiscard]] std::string dump_many_program(const ManyGpus& many);

}  // namespace tracecast
