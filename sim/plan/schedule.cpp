#include "sim/plan/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/plan/event_run.hpp"
#include "sim/plan/policy/policies.hpp"
#include "sim/plan/policy/ranked_shares.hpp"
#include "sim/plan/round_run.hpp"

namespace tracecast::plan {
namespace {

/// A row per policy: how it is made, and what it is. One that ranks decides at events and, where
/// the rules have rounds, is asked for shares.
struct Policy {
  std::string_view name;
  std::unique_ptr<Ranking> (*ranks)(const PolicyOptions&);
  std::unique_ptr<Sharing> (*divides)(const PolicyOptions&);
  std::string_view what;
  /// Where gangs are elastic; null: as `divides`, which may know of sizes itself.
  std::unique_ptr<Sharing> (*divides_sizes)(const PolicyOptions&) = nullptr;
};
constexpr std::array kPolicies{
    Policy{"fifo", make_fifo, make_fifo_shares, "first come first served, blind to speed"},
    Policy{"fifo_perf", make_fifo_perf, make_fifo_perf_shares,
           "first come first served, where each runs fastest"},
    Policy{"srtf", make_srtf, nullptr, "least remaining time first (Schrage, 1968)"},
    Policy{"srsf", make_srsf, nullptr, "least remaining time x GPUs first (Tiresias, NSDI 2019)"},
    Policy{"las", make_las, nullptr, "least attained service in queues (Tiresias, NSDI 2019)"},
    Policy{"even", make_even, nullptr, "every kind spread evenly over the GPUs"},
    Policy{"priority", make_priority, nullptr, "fast GPUs for whom they speed up most"},
    Policy{"max_min", nullptr, make_max_min,
           "max-min fairness that knows the speeds (Gavel, OSDI 2020)", make_max_min_sized},
    Policy{"max_min_blind", nullptr, make_max_min_blind, "max-min fairness blind to speed"},
    Policy{"min_makespan", nullptr, make_min_makespan,
           "shortest makespan of the jobs that are there (Gavel, OSDI 2020)",
           make_min_makespan_sized},
    Policy{"max_throughput", nullptr, make_max_throughput,
           "most steps per second of all jobs (Gavel, OSDI 2020)"},
    Policy{"finish_time_fairness", nullptr, make_finish_time_fairness,
           "least unfair finish, blind to speed (Themis, NSDI 2020)"},
    Policy{"finish_time_fairness_perf", nullptr, make_finish_time_fairness_perf,
           "least unfair finish that knows the speeds (Gavel, OSDI 2020)"},
    Policy{"allox", nullptr, make_allox,
           "least mean completion time by matching, single GPUs (AlloX, EuroSys 2020)"},
    Policy{"cost", nullptr, make_cost, "most steps per dollar, deadlines kept (Gavel, OSDI 2020)"},
    Policy{"deadline", make_deadline, nullptr, "earliest deadline first (Liu and Layland, 1973)"},
    Policy{"equal_gpus", make_equal_gpus, nullptr,
           "elastic gangs: as many GPUs for all (McCann et al., 1993)"},
    Policy{"marginal_gain", make_marginal_gain, nullptr,
           "elastic gangs: GPUs where they save most time (Optimus, EuroSys 2018)"},
};

/// Names that published tables have for the same.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kAliases{{
    {"tiresias_l", "las"},
    {"max_min_fairness", "max_min_blind"},
    {"max_min_fairness_perf", "max_min"},
    {"min_total_duration", "min_makespan"},
    {"max_sum_throughput_perf", "max_throughput"},
}};
constexpr std::string_view kPacked = "_packed";

const Policy* find_row(std::string_view name) {
  const auto row = std::find_if(kPolicies.begin(), kPolicies.end(),
                                [&](const Policy& policy) { return policy.name == name; });
  return row == kPolicies.end() ? nullptr : &*row;
}

std::string type_names(const Fleet& fleet) {
  std::string names;
  for (const GpuType& type : fleet.types)
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", type.gpus, type.id);
  return names;
}

/// The mix without sizes of elastic gangs that an idle fleet could not hold: their rates are 0.
JobMix without_misfits(const JobMix& mix, const Fleet& fleet, Placement placement) {
  const FreeGpus idle(fleet, placement);
  JobMix fitting = mix;
  for (JobKind& kind : fitting.kinds) {
    for (GangSize& size : kind.sizes) {
      for (std::uint32_t t = 0; t < fleet.types.size(); ++t) {
        if (!idle.fits(size.gpus, {t})) size.rates[t] = 0;
      }
    }
  }
  return fitting;
}

/// Every kind must fit somewhere where it can run, with the GPUs it states; with any size for a
/// policy that resizes.
void check_fits(const JobMix& mix, const Fleet& fleet, Placement placement, bool resizes) {
  const FreeGpus idle(fleet, placement);
  std::vector<bool> fits(mix.kinds.size());
  for (std::size_t k = 0; k < mix.kinds.size(); ++k) {
    const JobKind& kind = mix.kinds[k];
    TRACECAST_CHECK(kind.rates.size() == fleet.types.size(), "a rate for every type");
    for (std::uint32_t t = 0; t < fleet.types.size(); ++t) {
      fits[k] = fits[k] || (kind.rates[t] > 0 && idle.fits(kind.gpus, {t}));
      for (const GangSize& size : kind.sizes)
        fits[k] = fits[k] || (resizes && size.rates[t] > 0 && idle.fits(size.gpus, {t}));
    }
  }
  for (const QueuedJob& job : mix.jobs) {
    if (fits[job.kind.index]) continue;
    const JobKind& kind = mix.kinds[job.kind.index];
    throw InputError(
        fmt::format("job {}", job.name),
        fmt::format("a gang of {} GPUs{}", kind.gpus,
                    kind.model.empty() ? "" : " for " + kind.model),
        fmt::format("one that fits the fleet where it can run ({})", type_names(fleet)));
  }
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const Policy& policy : kPolicies) names.emplace_back(policy.name);
  return names;
}

PolicyName find_policy(std::string_view word) {
  PolicyName found;
  std::string name = to_lower(word);
  if (name.size() > kPacked.size() && name.ends_with(kPacked)) {
    found.space_sharing = true;
    name.resize(name.size() - kPacked.size());
    // "max_min_fairness_packed" knows the speeds, as "max_min_fairness_perf" does.
    if (name == "max_min_fairness") name = "max_min";
  }
  for (const auto& [alias, real] : kAliases) {
    if (name == alias) name = real;
  }
  if (find_row(name) == nullptr) {
    std::vector<std::string> words = policy_names();
    for (const auto& [alias, real] : kAliases) words.emplace_back(alias);
    throw InputError("--policy", '"' + std::string(word) + '"', describe_choices(word, words));
  }
  found.name = name;
  return found;
}

std::string_view describe_policy(std::string_view name) {
  const Policy* row = find_row(name);
  TRACECAST_CHECK(row != nullptr, "a policy of the table");
  return row->what;
}

namespace {

/// Space sharing needs a policy that knows of pairs, and what is known of them.
void check_pairs(std::string_view policy, const JobMix& mix) {
  if (policy != "max_min" && policy != "max_min_blind")
    throw InputError(fmt::format("--policy {}", policy), "space sharing",
                     "max_min or max_min_blind with it");
  if (mix.shared.empty())
    throw InputError(
        "--space-sharing", "no rates of two jobs together that the trace has",
        "a table of pairs in --throughputs (job_a, job_b, steps_per_s_a, steps_per_s_b)");
}

/// A policy that needs what the mix or the fleet lacks.
void check_needs(std::string_view policy, const JobMix& mix, const Fleet& fleet) {
  const std::string place = fmt::format("--policy {}", policy);
  if (policy == "deadline" &&
      std::none_of(mix.jobs.begin(), mix.jobs.end(),
                   [](const QueuedJob& job) { return job.deadline.has_value(); }))
    throw InputError(place, "a trace without deadlines", "a column deadline_s");
  if (policy == "cost") {
    for (const GpuType& type : fleet.types) {
      if (!type.usd_per_hour || *type.usd_per_hour <= 0)
        throw InputError(place, fmt::format("no price of {}", type.id),
                         "usd_per_gpu_hour in --fleet");
    }
  }
}

}  // namespace

Schedule simulate(const JobMix& given, const Fleet& fleet, const Rules& rules,
                  const ScheduleOptions& options) {
  const PolicyName policy = find_policy(options.policy);
  const Policy& row = *find_row(policy.name);
  const Placement placement = rules.placement_for(policy.name);
  const bool is_elastic = given.has_elastic();
  const JobMix fitting = is_elastic ? without_misfits(given, fleet, placement) : JobMix();
  const JobMix& mix = is_elastic ? fitting : given;
  PolicyOptions settings;
  settings.queue_limits_gpu_s = rules.queue_limits_gpu_s;
  settings.first_come_overcommits = rules.first_come_overcommits;
  settings.seed = static_cast<std::uint32_t>(options.seed);
  settings.makespan_by_halving = rules.makespan_by_halving;
  settings.allox_reach = rules.allox_reach;
  if (!options.queue_limits_gpu_s.empty()) settings.queue_limits_gpu_s = options.queue_limits_gpu_s;
  std::unique_ptr<Ranking> ranking = row.ranks != nullptr ? row.ranks(settings) : nullptr;
  check_fits(mix, fleet, placement, ranking != nullptr && ranking->resizes());
  check_needs(policy.name, mix, fleet);
  if (policy.space_sharing || options.space_sharing) {
    check_pairs(policy.name, mix);
    const std::unique_ptr<Sharing> sharing = policy.name == "max_min"
                                                 ? make_max_min_packed(settings)
                                                 : make_max_min_blind_packed(settings);
    return run_by_rounds(mix, fleet, rules, *sharing, placement, options);
  }
  if (row.divides != nullptr && (row.ranks == nullptr || rules.round)) {
    const std::unique_ptr<Sharing> sharing =
        (is_elastic && row.divides_sizes != nullptr ? row.divides_sizes : row.divides)(settings);
    return run_by_rounds(mix, fleet, rules, *sharing, placement, options);
  }
  if (rules.round && !ranking->chooses_by_type()) {
    const std::unique_ptr<Sharing> sharing = make_ranked_shares(std::move(ranking));
    return run_by_rounds(mix, fleet, rules, *sharing, placement, options);
  }
  return run_by_events(mix, fleet, rules, *ranking, placement, options);
}

}  // namespace tracecast::plan
