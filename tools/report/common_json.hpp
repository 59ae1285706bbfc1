#pragma once
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "sim/job/largest_batch.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/step/step_account.hpp"

namespace tracecast {

/// [{key, "time_s" if asked for, "share" of the step}].
[[nodiscard]] nlohmann::ordered_json shares_json(std::span<const TimeShare> shares, const char* key,
                                                 Seconds step, bool with_time);
[[nodiscard]] nlohmann::ordered_json memory_json(const MemoryPlan& memory,
                                                 const MemoryAdvice& advice);
/// What the loader of `job` does.
[[nodiscard]] nlohmann::ordered_json input_json(const ResolvedJob& job, const InputUse& use);
/// What CPU utilisation is a share of: "16 threads", or "a quota of 4 CPUs".
[[nodiscard]] std::string utilization_of(const InputUse& use);
/// "16 CPU threads with a quota of 4 CPUs".
[[nodiscard]] std::string processors_text(const InputUse& use);
/// Power of the mean board, of all `boards`, and their energy per sample: total power over the rate
/// of samples.
void set_power(nlohmann::ordered_json& doc, const ResolvedJob& job, const PowerRange& power,
               double boards, double samples_per_s);
/// Where the step of a job on many GPUs goes: by class and basis, along its critical path; what is
/// reported of one GPU alone becomes a share of this step.
void set_step(nlohmann::ordered_json& doc, const StepAccount& account,
              std::span<const TimeShare> critical, Seconds step);

}  // namespace tracecast
