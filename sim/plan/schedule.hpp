#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/plan/fleet.hpp"
#include "sim/plan/job_mix.hpp"
#include "sim/plan/progress.hpp"
#include "sim/plan/rules.hpp"

namespace tracecast::plan {

/// A stay of a job on GPUs.
struct Residence {
  JobId job;
  TypeId type;
  int gpus = 1;
  Time begin{}, end{};
  std::vector<HeldGpus> held;      ///< empty where machines do not count
  std::optional<JobId> partner{};  ///< that shared the GPUs all the while; its stay is this one
};

struct ScheduleOptions {
  std::string policy = "fifo";             ///< one of policy_names(), or an alias
  bool space_sharing = false;              ///< two jobs may share their GPUs where that gains
  std::vector<double> queue_limits_gpu_s;  ///< empty: those of the rules
  std::optional<Seconds> round;            ///< nothing: those of the rules
  /// Only these jobs matter (first and last, from 0): the run ends with the last of them.
  std::optional<std::pair<std::uint32_t, std::uint32_t>> measured;
  bool records_residences = false;
  std::uint64_t seed = 0;  ///< of what is drawn: failures, the order of GPU types
};

/// What a run came to.
struct Schedule {
  std::vector<JobHistory> jobs;
  std::vector<Residence> residences;  ///< in the order of their ends; where asked for
  std::vector<double> busy_gpu_s;     ///< by GPU type
  Time end{};                         ///< when the run ended
  std::uint64_t decisions = 0;        ///< how often it was decided who runs
  std::uint64_t allocations = 0;      ///< how often a policy that divides time was asked
  std::uint64_t failures = 0;         ///< of machines
};

/// Runs a mix on a fleet. Needs a valid mix: arrivals do not go back, every kind has one rate per
/// type of the fleet. Throws InputError: an unknown policy (with the nearest word), a gang that the
/// fleet can never hold, a policy that needs what the mix lacks (deadlines, prices, shared rates).
[[nodiscard]] Schedule simulate(const JobMix& mix, const Fleet& fleet, const Rules& rules,
                                const ScheduleOptions& options);

/// The policies by name, in the order in which `--policy all` runs them.
[[nodiscard]] std::vector<std::string> policy_names();
/// The name behind an alias, and whether it asks for space sharing ("max_min_fairness_packed").
/// Throws InputError.
struct PolicyName {
  std::string name;
  bool space_sharing = false;
};
[[nodiscard]] PolicyName find_policy(std::string_view word);
/// One sentence and its source.
[[nodiscard]] std::string_view describe_policy(std::string_view name);

}  // namespace tracecast::plan
