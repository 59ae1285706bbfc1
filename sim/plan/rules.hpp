#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/plan/fleet.hpp"

namespace tracecast::plan {

enum class RoundEnd { Fixed, LastStep };
enum class StartCharge { Never, WhenStarted, EveryDecision };
enum class Placement { Pool, Machines, Nearest };

/// How a simulator turns a policy's wish into time. The comments of sim/plan/proto/rules.proto say
/// what each means.
struct Rules {
  std::string id = "ideal";
  std::string title;
  std::vector<std::string> sources;
  std::optional<Seconds> round;  ///< nothing: decides at every arrival and completion
  Seconds shares_round{360.0};   ///< of policies that divide time
  RoundEnd round_end = RoundEnd::Fixed;
  bool whole_steps = false;
  Seconds least_between_decisions{};
  bool new_jobs_wait = false;
  bool divides_at_once = false;
  bool restarts_between_phases = false;
  bool books_when_stopped = false;
  bool starts_early = false;
  double decides_ahead = 0;  ///< of a round, in [0, 1)
  StartCharge start_charge = StartCharge::Never;
  Seconds start_cost{};
  double run_time_factor = 1;
  Placement placement = Placement::Pool;
  std::vector<std::string> pooled_policies;
  bool keeps_places = false;
  bool places_largest_first = false;
  double scattered_run_time_factor = 1;    ///< at least 1
  std::vector<double> queue_limits_gpu_s;  ///< rising
  bool blind_policies_shuffle_types = false;
  bool first_come_overcommits = false;
  bool makespan_by_halving = false;
  double allox_reach = 1;  ///< in (0, 1]
  std::optional<Fleet> fleet;

  [[nodiscard]] Placement placement_for(std::string_view policy) const;
};

/// Reads and checks rules in text format. Throws InputError with line.
[[nodiscard]] Rules load_rules(std::string_view text, std::string_view where);

/// Those that ship, by id. Throws InputError for an unknown word.
[[nodiscard]] const Rules& find_rules(std::string_view id);
[[nodiscard]] std::vector<std::string> rules_ids();

}  // namespace tracecast::plan
