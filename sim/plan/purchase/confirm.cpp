#include "sim/plan/purchase/confirm.hpp"

#include <algorithm>
#include <cmath>

#include "sim/engine/time.hpp"

namespace tracecast::plan {
namespace {

/// When jobs of a chain can start, by the plan's times.
std::vector<Seconds> earliest(const PurchaseProblem& problem, const Purchase& plan) {
  std::vector<double> longest(problem.jobs.size(), 0), start(problem.jobs.size(), -1);
  for (std::size_t k = 0; k < problem.modes.size(); ++k) {
    if (plan.assigned[k] > 0)
      longest[problem.modes[k].job] =
          std::max(longest[problem.modes[k].job], problem.modes[k].time.in_s());
  }
  const auto start_of = [&](const auto& self, std::size_t j) -> double {
    if (start[j] >= 0) return start[j];
    double at = problem.jobs[j].arrival.in_s();
    for (const std::size_t before : problem.jobs[j].after)
      at = std::max(at, self(self, before) + longest[before]);
    return start[j] = at;
  };
  std::vector<Seconds> starts;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) starts.emplace_back(start_of(start_of, j));
  return starts;
}

struct Placed {
  std::size_t mode = 0;
  Seconds submit{};
  int number = 0;
};

/// The machines of one offer.
Fleet fleet_of(const Offer& offer, int machines) {
  Fleet fleet;
  GpuType type;
  type.id = offer.id;
  type.gpus = machines * offer.gpus;
  fleet.types.push_back(std::move(type));
  fleet.machines.assign(static_cast<std::size_t>(machines), {TypeId{0}, offer.gpus});
  return fleet;
}

JobMix mix_of(const PurchaseProblem& problem, const std::vector<PlanJob>& jobs,
              const std::vector<Placed>& placed) {
  JobMix mix;
  std::vector<std::optional<KindId>> kinds(problem.modes.size());
  for (const Placed& one : placed) {
    const Mode& mode = problem.modes[one.mode];
    if (!kinds[one.mode]) {
      kinds[one.mode] = KindId{static_cast<std::uint32_t>(mix.kinds.size())};
      JobKind kind;
      kind.model = jobs[mode.job].job.network;
      kind.gpus = mode.gang;
      kind.rates = {1};  // a step is a second of it
      mix.kinds.push_back(std::move(kind));
    }
    QueuedJob queued;
    queued.name = jobs[mode.job].id;
    queued.kind = *kinds[one.mode];
    queued.submit = engine::to_ticks<Time>(one.submit);
    queued.steps = mode.time.in_s();
    queued.weight = jobs[mode.job].priority;
    mix.jobs.push_back(std::move(queued));
  }
  return mix;
}

/// Runs what is placed on one offer in the order given.
std::vector<PlanResidence> run(const PurchaseProblem& problem, const std::vector<PlanJob>& jobs,
                               const Fleet& fleet, const std::vector<Placed>& placed) {
  const JobMix mix = mix_of(problem, jobs, placed);
  Rules rules = find_rules("ideal");
  rules.placement = Placement::Machines;
  ScheduleOptions options;
  options.policy = "fifo";
  options.records_residences = true;
  const Schedule schedule = simulate(mix, fleet, rules, options);
  std::vector<PlanResidence> residences;
  for (const Residence& residence : schedule.residences) {
    const Placed& one = placed[residence.job.index];
    residences.push_back(
        {one.mode, one.number, residence.begin.in_seconds(), residence.end.in_seconds()});
  }
  return residences;
}

Seconds last_end(const std::vector<PlanResidence>& residences) {
  Seconds last{};
  for (const PlanResidence& residence : residences) last = max(last, residence.end);
  return last;
}

enum class Order { Longest, Widest, MostUrgent };

int late_jobs(const PurchaseProblem& problem, const std::vector<PlanResidence>& residences) {
  constexpr double kRounding = 1e-6;  // of microseconds, relative
  int late = 0;
  for (const PlanResidence& residence : residences) {
    const auto& own = problem.jobs[problem.modes[residence.mode].job].deadline;
    if (own && residence.end > *own * (1 + kRounding)) ++late;
  }
  return late;
}

/// The order with the fewest late jobs, then the earliest end.
std::vector<PlanResidence> best_order(const PurchaseProblem& problem,
                                      const std::vector<PlanJob>& jobs, const Fleet& fleet,
                                      std::vector<Placed> placed) {
  const auto due = [&](const Mode& mode) {
    return problem.jobs[mode.job].deadline.value_or(Seconds(1e15));
  };
  std::optional<std::vector<PlanResidence>> best;
  for (const Order order : {Order::Longest, Order::Widest, Order::MostUrgent}) {
    std::stable_sort(placed.begin(), placed.end(), [&](const Placed& a, const Placed& b) {
      const Mode &left = problem.modes[a.mode], &right = problem.modes[b.mode];
      if (a.submit != b.submit) return a.submit < b.submit;
      if (order == Order::Widest && left.gang != right.gang) return left.gang > right.gang;
      if (order == Order::MostUrgent && due(left) != due(right)) return due(left) < due(right);
      return left.time > right.time;
    });
    std::vector<PlanResidence> residences = run(problem, jobs, fleet, placed);
    const auto score = [&](const std::vector<PlanResidence>& s) {
      return std::pair(late_jobs(problem, s), last_end(s));
    };
    if (!best || score(residences) < score(*best)) best = std::move(residences);
  }
  return *best;
}

}  // namespace

Confirmation confirm(const PurchaseProblem& problem, const std::vector<PlanJob>& jobs,
                     const Purchase& plan) {
  constexpr double kRounding = 1e-6;  // of microseconds, relative
  Confirmation result;
  const std::vector<Seconds> starts = earliest(problem, plan);
  for (std::size_t o = 0; o < problem.offers.size(); ++o) {
    std::vector<Placed> placed;
    for (std::size_t k = 0; k < problem.modes.size(); ++k) {
      const Mode& mode = problem.modes[k];
      if (mode.offer != o) continue;
      for (int n = 0; n < plan.assigned[k]; ++n)
        placed.push_back({k, max(starts[mode.job], problem.offers[o].delivery), n});
    }
    if (placed.empty()) continue;
    const Fleet fleet = fleet_of(problem.offers[o], plan.machines[o]);
    const std::vector<PlanResidence> residences =
        best_order(problem, jobs, fleet, std::move(placed));
    result.residences.insert(result.residences.end(), residences.begin(), residences.end());
  }
  result.makespan = last_end(result.residences);
  result.in_time = late_jobs(problem, result.residences) == 0;
  const auto& deadline = problem.limits.deadline;
  if (deadline && result.makespan > *deadline * (1 + kRounding)) result.in_time = false;
  return result;
}

ConfirmedPurchase find_confirmed(PurchaseProblem& problem, const std::vector<PlanJob>& jobs,
                                 const PurchaseSearch& search) {
  constexpr int kTries = 12;
  constexpr double kLeast = 0.3;
  ConfirmedPurchase report;
  for (int attempt = 0; attempt < kTries && problem.usable > kLeast; ++attempt) {
    bool proven = true;
    const auto plan = find_purchase(problem, search, &proven);
    if (!plan) {
      if (!report.plan) report.proven = proven;
      break;
    }
    report.plan = plan;
    report.proven = proven;
    report.confirmation = confirm(problem, jobs, *plan);
    if (report.confirmation->in_time || attempt + 1 == kTries) break;
    const double over =
        problem.limits.deadline ? report.confirmation->makespan / *problem.limits.deadline : 1.0;
    problem.usable *= std::min(0.95, 0.995 / std::max(1.0, over));
  }
  return report;
}

}  // namespace tracecast::plan
