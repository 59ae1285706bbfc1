#include "sim/plan/purchase/purchase.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/plan/purchase/purchase_program.hpp"

namespace tracecast::plan {

double ServedGangs::needed_share(double error) const {
  const double needed = std::ceil(asked_per_s / (borne_per_s * std::exp(error)) * (1 - 1e-12));
  return std::max(1.0, needed) / gangs;
}

namespace {

constexpr double kLongestYears = 20;
constexpr double kPurchaseYear = 8760 * 3600.0;

class Clock {
 public:
  explicit Clock(double most) : most_(most), start_(std::chrono::steady_clock::now()) {}
  [[nodiscard]] double left() const {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - start_;
    return std::max(0.1, most_ - gone.count());
  }

 private:
  double most_;
  std::chrono::steady_clock::time_point start_;
};

/// No horizon is shorter: every job on its fastest mode, chains in a row.
Seconds least_horizon(const PurchaseProblem& problem) {
  std::vector<double> shortest(problem.jobs.size(), PurchaseProgram::kNever);
  for (const Mode& mode : problem.modes) {
    const Offer& offer = problem.offers[mode.offer];
    if (offer.most == 0) continue;
    shortest[mode.job] = std::min(shortest[mode.job], mode.time.in_s());
  }
  std::vector<double> end(problem.jobs.size(), -1);
  const auto end_of = [&](const auto& self, std::size_t j) -> double {
    if (end[j] >= 0) return end[j];
    double start = problem.jobs[j].arrival.in_s();
    for (const std::size_t earlier : problem.jobs[j].after)
      start = std::max(start, self(self, earlier));
    return end[j] = start + shortest[j];
  };
  double latest = 0;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j)
    latest = std::max(latest, end_of(end_of, j));
  return Seconds(latest);
}

struct Report {
  std::optional<Purchase> plan;
  bool proven = true;
};

Report solve_at(const PurchaseProblem& problem, Seconds horizon, double seconds, double gap,
                bool any_will_do) {
  return [&] {
    const PurchaseProgram program(problem, horizon);
    Report report;
    report.plan =
        program.solve({.most_seconds = seconds, .gap = gap, .first = any_will_do}, &report.proven);
    return report;
  }();
}

/// Least horizon: doubled until there is a plan, then halved between what has one and what is
/// proven to have none.
Report shortest(const PurchaseProblem& problem, const PurchaseSearch& search, Clock& clock) {
  const double most =
      problem.limits.deadline ? problem.limits.deadline->in_s() : kLongestYears * kPurchaseYear;
  double low = least_horizon(problem).in_s() * (1 - 1e-12), high = low * (1 + 1e-9), proven = low;
  if (!(low <= most)) return {};
  Report best;
  for (;; high = std::min(high * 2, most)) {
    best = solve_at(problem, Seconds(high), clock.left(), 1, true);
    if (best.plan || high >= most) break;
    low = high;
    if (best.proven) proven = high;
  }
  if (!best.plan) return best;
  const double fine = std::max(search.gap, 1e-4);
  while (high / low - 1 > fine && clock.left() > 0.2) {
    const double middle = std::sqrt(low * high);
    Report next = solve_at(problem, Seconds(middle), clock.left() / 2, 1, true);
    if (next.plan) {
      // What was found may be shorter than what was asked for.
      high = std::min(middle, std::max(next.plan->bill.makespan.in_s(), low));
      best = std::move(next);
    } else {
      low = middle;
      if (next.proven) proven = middle;
    }
  }
  Report cheapest = solve_at(problem, Seconds(high), std::min(5.0, clock.left()), 1e-3, false);
  if (cheapest.plan) best = std::move(cheapest);
  best.plan->objective = high;
  best.plan->gap = 1 - proven / high;
  return best;
}

/// Horizons in even ratios from the least one on, the same whatever the deadline, up to it, and it;
/// then finer around the best. Each plan is looked at again at its own makespan where that is
/// shorter: the same machines cost less until then.
Report cheapest_per_job(const PurchaseProblem& problem, const PurchaseSearch& search,
                        Clock& clock) {
  constexpr double kRatio = 1.3, kShorter = 0.999;
  constexpr int kMostSteps = 30, kAgain = 3, kRounds = 3;
  const double most = problem.limits.deadline ? problem.limits.deadline->in_s() : kPurchaseYear;
  const double least = least_horizon(problem).in_s() * (1 + 1e-9);
  if (!(least <= most)) return {};
  Report best{.plan = std::nullopt, .proven = true};
  const auto look = [&](double horizon) {
    for (int again = 0; again < kAgain; ++again) {
      Report next = solve_at(problem, Seconds(horizon), clock.left() / 4, search.gap, false);
      best.proven = best.proven && next.proven;
      if (!next.plan) return;
      next.plan->objective = next.plan->bill.cost_usd() / problem.total_jobs();
      const double own =
          std::max(next.plan->bill.makespan.in_s() / problem.usable * (1 + 1e-9), least);
      if (!best.plan || next.plan->objective < best.plan->objective)
        best.plan = std::move(next.plan);
      if (own > horizon * kShorter) return;
      horizon = own;
    }
  };
  double ratio = std::max(kRatio, std::pow(most / least, 1.0 / kMostSteps));
  for (double horizon = least; horizon < most; horizon *= ratio) look(horizon);
  look(most);
  if (!best.plan) return best;
  for (int round = 0; round < kRounds; ++round) {
    ratio = std::sqrt(ratio);
    const double middle = best.plan->horizon.in_s();
    if (middle / ratio >= least) look(middle / ratio);
    if (middle * ratio <= most) look(middle * ratio);
  }
  return best;
}

}  // namespace

std::string_view to_string(PurchaseGoal goal) {
  return goal == PurchaseGoal::Cost       ? "cost"
         : goal == PurchaseGoal::Makespan ? "makespan"
                                          : "cost_per_job";
}

int PurchaseProblem::total_jobs() const {
  int total = 0;
  for (const Demand& job : jobs) total += job.count;
  return total;
}

std::optional<Purchase> find_purchase(const PurchaseProblem& problem, const PurchaseSearch& search,
                                      bool* proven) {
  Clock clock(search.most_seconds);
  Report report;
  if (search.goal == PurchaseGoal::Makespan) {
    report = shortest(problem, search, clock);
  } else if (search.goal == PurchaseGoal::CostPerJob) {
    report = cheapest_per_job(problem, search, clock);
  } else {
    TRACECAST_CHECK(problem.limits.deadline, "least cost needs a horizon");
    report = solve_at(problem, *problem.limits.deadline, clock.left(), search.gap, false);
  }
  if (proven != nullptr) *proven = report.proven;
  return report.plan;
}

PurchaseBill bill_of(const PurchaseProblem& problem, const std::vector<int>& machines,
                     const std::vector<double>& rented_hours, const std::vector<int>& assigned,
                     Seconds horizon) {
  PurchaseBill bill;
  const Catalogue& costs = problem.costs;
  const double usd_per_joule = costs.energy_usd_per_kwh / 3.6e6 * costs.pue;
  std::vector<double> gpu_s(problem.offers.size(), 0), longest(problem.jobs.size(), 0);
  double joules = 0;
  for (std::size_t k = 0; k < problem.modes.size(); ++k) {
    if (assigned[k] == 0) continue;
    const Mode& mode = problem.modes[k];
    gpu_s[mode.offer] += assigned[k] * mode.gang * mode.time.in_s();
    longest[mode.job] = std::max(longest[mode.job], mode.time.in_s());
    if (problem.offers[mode.offer].tenure != Tenure::Rented)
      joules += assigned[k] * mode.extra_energy.in_j();
  }
  double latest = 0;
  for (std::size_t o = 0; o < problem.offers.size(); ++o) {
    const Offer& offer = problem.offers[o];
    const double count = machines[o];
    if (offer.tenure == Tenure::Rented) {
      bill.rent_usd += rented_hours[o] * offer.usd_per_hour;
      const double paid = rented_hours[o] * 3600 * offer.gpus;
      bill.use.push_back(paid > 0 ? gpu_s[o] / paid : 0);
      continue;
    }
    const double share = costs.amortisation ? std::min(1.0, horizon / *costs.amortisation) : 1.0;
    bill.hardware_usd += offer.tenure == Tenure::Bought ? count * offer.price_usd : 0;
    bill.charged_usd += offer.tenure == Tenure::Bought ? count * offer.price_usd * share : 0;
    bill.hosting_usd += count * offer.rack_units * costs.rack_unit_usd_per_month *
                        (horizon.in_s() / (730 * 3600.0));
    joules += count * (offer.idle * horizon).in_j();
    bill.power += offer.load * count;
    bill.rack_units += machines[o] * offer.rack_units;
    const double there = count * offer.gpus;
    bill.use.push_back(there > 0 ? gpu_s[o] / (there * horizon.in_s()) : 0);
    if (gpu_s[o] > 0) latest = std::max(latest, offer.delivery.in_s() + gpu_s[o] / there);
  }
  bill.energy_usd = joules * usd_per_joule;
  bill.energy_kwh = joules * costs.pue / 3.6e6;
  std::vector<double> end(problem.jobs.size(), -1);
  const auto end_of = [&](const auto& self, std::size_t j) -> double {
    if (end[j] >= 0) return end[j];
    double start = problem.jobs[j].arrival.in_s();
    for (const std::size_t earlier : problem.jobs[j].after)
      start = std::max(start, self(self, earlier));
    return end[j] = start + longest[j];
  };
  for (std::size_t j = 0; j < problem.jobs.size(); ++j)
    latest = std::max(latest, end_of(end_of, j));
  bill.makespan = Seconds(latest);
  return bill;
}

}  // namespace tracecast::plan
