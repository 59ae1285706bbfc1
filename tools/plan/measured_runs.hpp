#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/job/hardware.hpp"
#include "sim/job/job.hpp"
#include "sim/plan/purchase/job_list.hpp"

namespace tracecast {

/// A run that a user timed.
struct MeasuredRun {
  std::string network, phase, precision,
      framework;  ///< empty but the network: whatever the job has
  std::optional<std::int64_t> batch;
  plan::MeasuredRate rate;
};

/// Reads a table `network, gpu, samples_per_s` with, where they matter, `batch` (of each GPU),
/// `gpus`, `phase`, `precision`, `framework`, `log_sd`. Throws InputError naming file and line: a
/// missing column, a GPU that nobody knows, a rate not above zero.
[[nodiscard]] std::vector<MeasuredRun> read_measured_runs(const std::filesystem::path& file,
                                                          const GpuCatalog& gpus);

/// Whether it is a run of this job, wherever.
[[nodiscard]] bool is_of(const MeasuredRun& run, const Job& job);

/// Adds to every job the runs that are of it; how many found one.
std::size_t add_runs(const std::vector<MeasuredRun>& runs, std::vector<plan::PlanJob>& jobs);

}  // namespace tracecast
