#include "sim/plan/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/plan/proto/rules.pb.h"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> schedule_rules();
}  // namespace embedded
namespace plan {
namespace {

using Message = proto::ScheduleRules;

Seconds seconds(double value, std::string_view where, std::string_view field, double least) {
  if (!std::isfinite(value) || value < least) {
    throw InputError(where, fmt::format("{} {}", field, value),
                     fmt::format("a number not below {}", least));
  }
  return Seconds(value);
}

void read_rounds(const Message& m, std::string_view where, Rules& rules) {
  constexpr double kShortestRound = 1e-3;
  if (m.has_round_s()) rules.round = seconds(m.round_s(), where, "round_s", kShortestRound);
  if (m.has_shares_round_s())
    rules.shares_round = seconds(m.shares_round_s(), where, "shares_round_s", kShortestRound);
  rules.round_end = m.round_end() == Message::LAST_STEP ? RoundEnd::LastStep : RoundEnd::Fixed;
  rules.whole_steps = m.whole_steps();
  rules.least_between_decisions =
      seconds(m.least_between_decisions_s(), where, "least_between_decisions_s", 0);
  rules.new_jobs_wait = m.new_jobs_wait();
  rules.divides_at_once = m.divides_at_once();
  rules.restarts_between_phases = m.restarts_between_phases();
  rules.books_when_stopped = m.books_when_stopped();
  rules.starts_early = m.starts_early();
  rules.decides_ahead = m.decides_ahead();
  if (!(rules.decides_ahead >= 0 && rules.decides_ahead < 1)) {
    throw InputError(where, fmt::format("decides_ahead {}", m.decides_ahead()),
                     "a part of a round, at least 0, below 1");
  }
}

void read_starts(const Message& m, std::string_view where, Rules& rules) {
  rules.start_charge = m.start_charge() == Message::WHEN_STARTED     ? StartCharge::WhenStarted
                       : m.start_charge() == Message::EVERY_DECISION ? StartCharge::EveryDecision
                                                                     : StartCharge::Never;
  rules.start_cost = seconds(m.start_s(), where, "start_s", 0);
  if (m.has_run_time_factor())
    rules.run_time_factor = seconds(m.run_time_factor(), where, "run_time_factor", 1e-3).in_s();
}

}  // namespace

Placement Rules::placement_for(std::string_view policy) const {
  const bool pooled =
      std::find(pooled_policies.begin(), pooled_policies.end(), policy) != pooled_policies.end();
  return pooled ? Placement::Pool : placement;
}

Rules load_rules(std::string_view text, std::string_view where) {
  Message m;
  parse_textproto(text, where, m);
  Rules rules;
  rules.id = m.id();
  rules.title = m.title();
  rules.sources.assign(m.source().begin(), m.source().end());
  if (rules.id.empty()) throw InputError(where, "no id", "id: \"ideal\"");
  if (rules.sources.empty()) throw InputError(where, "no source", "where the rules are stated");
  read_rounds(m, where, rules);
  read_starts(m, where, rules);
  rules.placement = m.placement() == Message::MACHINES  ? Placement::Machines
                    : m.placement() == Message::NEAREST ? Placement::Nearest
                                                        : Placement::Pool;
  if (m.has_scattered_run_time_factor())
    rules.scattered_run_time_factor =
        seconds(m.scattered_run_time_factor(), where, "scattered_run_time_factor", 1).in_s();
  rules.pooled_policies.assign(m.pooled_policy().begin(), m.pooled_policy().end());
  rules.keeps_places = m.keeps_places();
  rules.places_largest_first = m.places_largest_first();
  rules.queue_limits_gpu_s.assign(m.queue_limit_gpu_s().begin(), m.queue_limit_gpu_s().end());
  double before = 0;
  for (const double limit : rules.queue_limits_gpu_s) {
    if (!(limit > before)) {
      throw InputError(where, fmt::format("queue_limit_gpu_s {}", limit),
                       "rising numbers above zero");
    }
    before = limit;
  }
  rules.blind_policies_shuffle_types = m.blind_policies_shuffle_types();
  rules.first_come_overcommits = m.first_come_overcommits();
  rules.makespan_by_halving = m.makespan_by_halving();
  if (m.has_allox_reach()) {
    rules.allox_reach = m.allox_reach();
    if (!(rules.allox_reach > 0 && rules.allox_reach <= 1))
      throw InputError(where, fmt::format("allox_reach {}", m.allox_reach()), "above 0, at most 1");
  }
  if (m.has_fleet()) rules.fleet = load_fleet(m.fleet(), where);
  return rules;
}

const Rules& find_rules(std::string_view id) {
  static const std::vector<Rules> all = [] {
    std::vector<Rules> list;
    for (const EmbeddedFile& file : embedded::schedule_rules())
      list.push_back(load_rules(file.content, file.path));
    return list;
  }();
  std::vector<std::string> ids;
  for (const Rules& rules : all) {
    if (rules.id == id) return rules;
    ids.push_back(rules.id);
  }
  throw InputError("--rules", '"' + std::string(id) + '"', describe_choices(id, ids));
}

std::vector<std::string> rules_ids() {
  std::vector<std::string> ids;
  for (const EmbeddedFile& file : embedded::schedule_rules())
    ids.push_back(load_rules(file.content, file.path).id);
  return ids;
}

}  // namespace plan
}  // namespace tracecast
