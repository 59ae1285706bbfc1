#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/plan/schedule.hpp"

namespace tracecast::plan {

/// Use of one GPU type over the run.
struct TypeUse {
  std::string id;
  int gpus = 0;
  double busy_gpu_s = 0;
  double utilization = 0;  ///< busy GPU seconds over GPUs x makespan
};

/// What a schedule comes to, over the jobs that were measured.
struct Summary {
  std::uint64_t jobs = 0;
  Seconds mean_jct, median_jct,
      p99_jct;               ///< completion minus arrival; p99: element int(0.99 n) of the sorted
  Seconds makespan;          ///< the last completion, from time 0
  Seconds mean_wait;         ///< from arrival until it first ran, plus all later waiting
  double mean_slowdown = 0;  ///< completion time over the time alone where it runs fastest
  double max_slowdown = 0;
  /// Jain, Chiu, Hawe, 1984, of 1 / slowdown: 1 = all alike, 1/n = one has all.
  double fairness = 0;
  std::uint64_t preemptions = 0, starts = 0;
  std::uint64_t resizes = 0;      ///< of the starts: with another number of GPUs than before
  std::uint64_t uncertainty = 0;  ///< of the starts: in more machines than the gang needs
  Seconds overhead;               ///< of starts, restarts and lost work, over all jobs
  double utilization = 0;         ///< busy GPU seconds over all GPUs x makespan
  std::vector<TypeUse> types;
  std::optional<double>
      energy_kwh;  ///< of all boards until the makespan, where the fleet's powers are known
  std::optional<double> cost_usd;  ///< of the GPU time that jobs held, where prices are known
};

/// `measured`: as ScheduleOptions::measured. Needs every measured job done.
[[nodiscard]] Summary summarize(const JobMix& mix, const Fleet& fleet, const Schedule& schedule,
                                const Rules& rules, const ScheduleOptions& options);

}  // namespace tracecast::plan
