#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/job/input_record.hpp"
#include "sim/plan/schedule.hpp"
#include "sim/plan/summary.hpp"

namespace tracecast {

/// One policy's run.
struct ScheduleReport {
  std::string policy;  ///< as resolved, "_packed" behind where GPUs were shared
  plan::Schedule schedule;
  plan::Summary summary;
};

/// What all answers of one call have in common.
struct ScheduleSetting {
  const plan::JobMix& mix;
  const plan::Fleet& fleet;
  const plan::Rules& rules;
  std::vector<InputRecord> inputs;
  std::uint64_t seed = 0;
};

[[nodiscard]] std::string schedule_text(const ScheduleSetting& setting,
                                        const std::vector<ScheduleReport>& reports);
/// One answer: its keys at the top; several: a list `policies` of such.
[[nodiscard]] std::string schedule_json(const ScheduleSetting& setting,
                                        const std::vector<ScheduleReport>& reports);
[[nodiscard]] std::string schedule_csv(const ScheduleSetting& setting,
                                       const std::vector<ScheduleReport>& reports);

/// One row per job that was measured. Throws InputError when the file cannot be written.
void write_jobs_csv(const std::filesystem::path& path, const ScheduleSetting& setting,
                    const ScheduleReport& report);
/// A Gantt chart as Chrome trace-event JSON, which ui.perfetto.dev opens: a process per GPU type, a
/// track per GPU, a slice per stay of a job. Needs recorded stays. Throws InputError when the file
/// cannot be written.
void write_gantt(const std::filesystem::path& path, const ScheduleSetting& setting,
                 const ScheduleReport& report);
/// The answers as a page: policies side by side, completion times, and of the first one the Gantt
/// chart (recorded stays).
[[nodiscard]] nlohmann::ordered_json schedule_page(const ScheduleSetting& setting,
                                                   const std::vector<ScheduleReport>& reports);
/// The mix's rates in the layout of Gavel's throughput files: {"TYPE": {"('MODEL (batch size B)',
/// GPUS)": {"null": steps/s, OTHER: [steps/s, steps/s]}}}. Throws InputError when the file cannot
/// be written.
void write_gavel_rates(const std::filesystem::path& path, const ScheduleSetting& setting);

}  // namespace tracecast
