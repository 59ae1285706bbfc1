#include "sim/plan/purchase/purchase_program.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast::plan {
namespace {

using Term = LinearProgram::Term;
constexpr double kInfinity = LinearProgram::kInfinity;
constexpr double kProgramHour = 3600, kMonth = 730 * 3600.0;
constexpr double kSlack = 1e-9;  ///< of whole numbers and of times, relative

int machines_of(const Mode& mode, const Offer& offer) {
  return (mode.gang + offer.gpus - 1) / offer.gpus;
}

}  // namespace

PurchaseProgram::PurchaseProgram(const PurchaseProblem& problem, Seconds horizon)
    : problem_(problem), horizon_(horizon) {
  add_machines();
  add_modes();
  add_capacity();
  add_gangs();
  add_times();
  add_limits();
}

double PurchaseProgram::keeping_usd(const Offer& offer) const {
  const Catalogue& costs = problem_.costs;
  return offer.rack_units * costs.rack_unit_usd_per_month * (horizon_.in_s() / kMonth) +
         (offer.idle * horizon_).in_j() / 3.6e6 * costs.pue * costs.energy_usd_per_kwh;
}

void PurchaseProgram::add_machines() {
  for (const Offer& offer : problem_.offers) {
    if (offer.tenure == Tenure::Rented) {
      machine_.push_back(program_.add_variable(-offer.usd_per_hour));
      spend_.push_back({machine_.back(), offer.usd_per_hour});
      continue;
    }
    const bool bought = offer.tenure == Tenure::Bought;
    const double share =
        problem_.costs.amortisation ? std::min(1.0, horizon_ / *problem_.costs.amortisation) : 1.0;
    const double price = bought ? offer.price_usd : 0, keeping = keeping_usd(offer);
    machine_.push_back(
        program_.add_variable(-(price * share + keeping), offer.least, offer.most, true));
    spend_.push_back({machine_.back(), price + keeping});
  }
}

void PurchaseProgram::add_modes() {
  const Catalogue& costs = problem_.costs;
  std::vector<std::vector<Term>> all(problem_.jobs.size());
  for (const Mode& mode : problem_.modes) {
    const Offer& offer = problem_.offers[mode.offer];
    const Demand& job = problem_.jobs[mode.job];
    const Seconds start = max(job.arrival, offer.delivery);
    const Seconds end = job.deadline ? min(*job.deadline, horizon_) : horizon_;
    if (start + mode.time > end * (1 + kSlack) || machines_of(mode, offer) > offer.most) {
      mode_.emplace_back();
      continue;
    }
    const double usd = offer.tenure == Tenure::Rented ? 0
                                                      : mode.extra_energy.in_j() / 3.6e6 *
                                                            costs.pue * costs.energy_usd_per_kwh;
    mode_.push_back(program_.add_variable(-usd, 0, job.count, true));
    if (usd > 0) spend_.push_back({*mode_.back(), usd});
    all[mode.job].push_back({*mode_.back(), 1});
  }
  for (std::size_t j = 0; j < all.size(); ++j) {
    if (all[j].empty()) possible_ = false;
    program_.add_row(std::move(all[j]), problem_.jobs[j].count, problem_.jobs[j].count);
  }
}

void PurchaseProgram::add_capacity() {
  std::vector<std::vector<Term>> filled(problem_.offers.size());
  for (std::size_t k = 0; k < mode_.size(); ++k) {
    if (!mode_[k]) continue;
    const Mode& mode = problem_.modes[k];
    filled[mode.offer].push_back({*mode_[k], mode.gang * mode.time.in_s() / kProgramHour});
  }
  for (std::size_t o = 0; o < problem_.offers.size(); ++o) {
    if (filled[o].empty()) continue;
    const Offer& offer = problem_.offers[o];
    if (offer.tenure == Tenure::Rented) {
      const double most = offer.most * offer.gpus * horizon_.in_s() / kProgramHour;
      program_.add_row(filled[o], -kInfinity, most);
      filled[o].push_back({machine_[o], -static_cast<double>(offer.gpus)});
    } else {
      const double hours = (horizon_ - offer.delivery).in_s() / kProgramHour * problem_.usable;
      filled[o].push_back({machine_[o], -offer.gpus * std::max(0.0, hours)});
    }
    program_.add_row(std::move(filled[o]), -kInfinity, 0);
  }
}

void PurchaseProgram::add_gangs() {
  for (std::size_t k = 0; k < mode_.size(); ++k) {
    if (!mode_[k]) continue;
    const Mode& mode = problem_.modes[k];
    const Offer& offer = problem_.offers[mode.offer];
    const int machines = machines_of(mode, offer), count = problem_.jobs[mode.job].count;
    const bool rented = offer.tenure == Tenure::Rented;
    // Hours of a rented machine are at least those of its longest job; machines there are no fewer
    // than its widest gang needs.
    const double needed = rented ? machines * mode.time.in_s() / kProgramHour : machines;
    std::size_t used = *mode_[k];
    if (count > 1) {
      used = program_.add_variable(0, 0, 1, true);
      program_.add_row({{*mode_[k], 1}, {used, -static_cast<double>(count)}}, -kInfinity, 0);
    }
    program_.add_row({{machine_[mode.offer], 1}, {used, -needed}}, 0, kInfinity);
  }
}

void PurchaseProgram::add_times() {
  std::vector<bool> is_chained(problem_.jobs.size(), false);
  for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
    for (const std::size_t earlier : problem_.jobs[j].after)
      is_chained[j] = is_chained[earlier] = true;
  }
  std::vector<std::size_t> end(problem_.jobs.size());
  for (std::size_t j = 0; j < problem_.jobs.size(); ++j) {
    if (!is_chained[j]) continue;
    const Demand& job = problem_.jobs[j];
    const Seconds last = job.deadline ? min(*job.deadline, horizon_) : horizon_;
    end[j] = program_.add_variable(0, 0, last.in_s() / kProgramHour * (1 + kSlack));
  }
  for (std::size_t k = 0; k < mode_.size(); ++k) {
    if (!mode_[k] || !is_chained[problem_.modes[k].job]) continue;
    // Alike jobs may take several modes: none of them ends later than the last of all.
    const Mode& mode = problem_.modes[k];
    const Demand& job = problem_.jobs[mode.job];
    const double hours = mode.time.in_s() / kProgramHour;
    const double arrival =
        max(job.arrival, problem_.offers[mode.offer].delivery).in_s() / kProgramHour;
    std::size_t used = *mode_[k];
    if (job.count > 1) {
      used = program_.add_variable(0, 0, 1, true);
      program_.add_row({{*mode_[k], 1}, {used, -static_cast<double>(job.count)}}, -kInfinity, 0);
    }
    program_.add_row({{end[mode.job], 1}, {used, -(arrival + hours)}}, 0, kInfinity);
    for (const std::size_t earlier : job.after)
      program_.add_row({{end[mode.job], 1}, {end[earlier], -1}, {used, -hours}}, 0, kInfinity);
  }
}

void PurchaseProgram::add_limits() {
  const PurchaseLimits& limits = problem_.limits;
  std::vector<Term> watts, units;
  for (std::size_t o = 0; o < problem_.offers.size(); ++o) {
    const Offer& offer = problem_.offers[o];
    if (offer.tenure == Tenure::Rented) continue;
    watts.push_back({machine_[o], offer.load.in_w() / 1000});
    units.push_back({machine_[o], static_cast<double>(offer.rack_units)});
  }
  if (limits.budget_usd) program_.add_row(spend_, -kInfinity, *limits.budget_usd);
  if (limits.power) program_.add_row(watts, -kInfinity, limits.power->in_w() / 1000);
  if (limits.rack_units) program_.add_row(units, -kInfinity, *limits.rack_units);
}

std::optional<Purchase> PurchaseProgram::solve(const Search& search, bool* proven) const {
  if (proven != nullptr) *proven = true;
  if (!possible_) return std::nullopt;
  const auto solution = program_.search({.most_seconds = search.most_seconds,
                                         .gap = search.gap,
                                         .first_solution = search.first,
                                         .first_branch = {machine_.begin(), machine_.end()}},
                                        proven);
  if (!solution) return std::nullopt;
  return purchase_of(*solution);
}

Purchase PurchaseProgram::purchase_of(const LinearProgram::Solution& solution) const {
  Purchase plan;
  plan.horizon = horizon_;
  for (std::size_t o = 0; o < problem_.offers.size(); ++o) {
    const Offer& offer = problem_.offers[o];
    const double value = solution.x[machine_[o]];
    const bool rented = offer.tenure == Tenure::Rented;
    plan.rented_hours.push_back(rented ? std::max(0.0, value) : 0);
    plan.machines.push_back(rented ? 0 : static_cast<int>(std::lround(value)));
  }
  for (const auto& variable : mode_)
    plan.assigned.push_back(variable ? static_cast<int>(std::lround(solution.x[*variable])) : 0);
  // As few rented machines at once as the hours allow.
  for (std::size_t k = 0; k < mode_.size(); ++k) {
    const Mode& mode = problem_.modes[k];
    if (plan.assigned[k] == 0 || problem_.offers[mode.offer].tenure != Tenure::Rented) continue;
    const double at_once = plan.rented_hours[mode.offer] * kProgramHour / horizon_.in_s();
    int& machines = plan.machines[mode.offer];
    machines = std::max({machines, machines_of(mode, problem_.offers[mode.offer]),
                         static_cast<int>(std::ceil(at_once - 1e-6))});
  }
  plan.bill = bill_of(problem_, plan.machines, plan.rented_hours, plan.assigned, horizon_);
  plan.objective = plan.bill.cost_usd();
  const double bound = -solution.bound;
  plan.gap = plan.objective > 0 ? std::max(0.0, 1 - bound / plan.objective) : 0;
  return plan;
}

}  // namespace tracecast::plan
