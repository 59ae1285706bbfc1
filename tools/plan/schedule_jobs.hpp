#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/fleet.hpp"
#include "sim/plan/job_mix.hpp"
#include "sim/plan/rules.hpp"
#include "tools/plan/schedule_rates.hpp"

namespace tracecast {

struct JobFileOptions {
  std::filesystem::path file;
  std::vector<std::string> only;        ///< COLUMN=VALUE
  std::optional<double> jobs_per_hour;  ///< of files that state arrivals in units of the mean gap
  std::filesystem::path start_costs;    ///< table `model, num_gpu, start_s`; empty: none
  std::optional<std::uint64_t>
      draw_programs;  ///< seed: jobs without a program get one of the rate tables, at random
};

/// Steps per second of programs that no table knows: asked once per program and GPU type; nothing:
/// cannot be told.
using RateSource =
    std::function<std::optional<double>(const RateTables::Program&, const std::string& type)>;

/// Reads a trace of jobs by its header:
/// - `iterations, iteration_s, num_gpu, submit_s`: Muri;
/// - `unit_gap, v100_s, gpus`: Gavel; arrivals follow from --jobs-per-hour, rates from a table;
/// - `arrival_s, adaptive_s, gpus`: Shockwave, whose batches change; a step is a second of the run
/// alone;
/// - `pod, creation_s, deletion_s, num_gpu`: Alibaba; pods on part of a GPU count as one, without
/// GPU are left out;
/// - `submit_s`, `num_gpu` or `gpus`, and `duration_s` or `steps`: any other. Rows of one `cluster`
/// or `vc` are in the
///   order of arrival. Optional: `job_id, model, batch, deadline_s, weight, gpu_types` (allowed
///   ones, joined by a bar); `data, pipeline, workers, cpu_threads, cpu_quota, host_cpu, machine,
///   disk, nic, no_p2p` and others that are flags of `predict` (precision, framework ...), which
///   mean the same of jobs whose rates are predicted; `global_batch` of all GPUs instead of `batch`
///   of each; `min_gpus, max_gpus` around the stated number: an elastic gang, whose rates by size
///   are those of the tables or predicted, and `resize_s`, what another size costs it at least.
/// Rates come from the tables, then from `predicted`; a job that states its duration takes that
/// long on every type that it may use, unless it names a program that the tables know: then its
/// duration is that on the fastest type. Throws InputError naming file and line: arrivals that go
/// back, sizes and times not above zero, a program or a GPU type without a rate, no row left.
[[nodiscard]] plan::JobMix read_job_mix(const JobFileOptions& options, const plan::Fleet& fleet,
                                        const plan::Rules& rules, const RateTables& tables,
                                        const RateSource& predicted);

}  // namespace tracecast
