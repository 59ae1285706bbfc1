#include "sim/plan/purchase/robustness.hpp"

#include <algorithm>
#include <cmath>

#include "sim/plan/linear_program.hpp"

namespace tracecast::plan {
namespace {

using Term = LinearProgram::Term;
constexpr double kInfinity = LinearProgram::kInfinity, kHour = 3600;

/// Jobs divided among machines that are there. Variables: jobs by mode in parts, hours of rented
/// machines, the horizon.
class WorldProgram {
 public:
  WorldProgram(const PurchaseProblem& problem, PurchaseGoal goal, const Purchase& plan,
               const std::vector<double>& times_s)
      : problem_(problem), goal_(goal), plan_(plan), times_s_(times_s) {}

  std::optional<double> solve() {
    add_horizon();
    add_jobs();
    add_machines();
    if (problem_.limits.budget_usd)
      program_.add_row(spend_, -kInfinity, *problem_.limits.budget_usd - hardware_usd_);
    const auto solution = program_.maximize();
    if (!solution) return std::nullopt;
    if (goal_ == PurchaseGoal::Makespan) return solution->x[horizon_] * kHour;
    const double cost = constant_usd_ - solution->value;
    return goal_ == PurchaseGoal::CostPerJob ? cost / problem_.total_jobs() : cost;
  }

 private:
  [[nodiscard]] double usd_per_kwh() const {
    return problem_.costs.energy_usd_per_kwh * problem_.costs.pue;
  }
  /// Machines kept for an hour, without their price.
  [[nodiscard]] double keeping_usd_per_hour() const {
    double usd = 0;
    for (std::size_t o = 0; o < problem_.offers.size(); ++o) {
      const Offer& offer = problem_.offers[o];
      if (offer.tenure == Tenure::Rented) continue;
      usd += plan_.machines[o] * (offer.rack_units * problem_.costs.rack_unit_usd_per_month / 730 +
                                  offer.idle.in_w() / 1000 * usd_per_kwh());
    }
    return usd;
  }

  void add_horizon() {
    const auto& deadline = problem_.limits.deadline;
    const double latest = deadline ? deadline->in_s() / kHour : kInfinity;
    for (std::size_t o = 0; o < problem_.offers.size(); ++o) {
      if (problem_.offers[o].tenure == Tenure::Bought)
        hardware_usd_ += plan_.machines[o] * problem_.offers[o].price_usd;
    }
    const auto& life = problem_.costs.amortisation;
    const double per_hour = keeping_usd_per_hour();
    if (goal_ == PurchaseGoal::Makespan) {
      horizon_ = program_.add_variable(-1, 0, latest);
    } else if (goal_ == PurchaseGoal::CostPerJob) {
      const double charge = life ? hardware_usd_ / (life->in_s() / kHour) : 0;
      constant_usd_ = life ? 0 : hardware_usd_;
      horizon_ = program_.add_variable(-(charge + per_hour), 0, latest);
    } else {
      const double share = life ? std::min(1.0, *deadline / *life) : 1;
      constant_usd_ = hardware_usd_ * share + per_hour * latest;
      hardware_usd_ += per_hour * latest;
      horizon_ = program_.add_variable(0, latest, latest);
    }
    if (goal_ != PurchaseGoal::Cost) spend_.push_back({horizon_, per_hour});
  }

  void add_jobs() {
    std::vector<std::vector<Term>> all(problem_.jobs.size());
    filled_.resize(problem_.offers.size());
    for (std::size_t k = 0; k < problem_.modes.size(); ++k) {
      const Mode& mode = problem_.modes[k];
      const Offer& offer = problem_.offers[mode.offer];
      const Demand& job = problem_.jobs[mode.job];
      const bool rented = offer.tenure == Tenure::Rented;
      if (rented ? mode.gang > offer.gpus * std::max(1, plan_.machines[mode.offer])
                 : mode.gang > offer.gpus * plan_.machines[mode.offer])
        continue;
      if (rented && plan_.machines[mode.offer] == 0) continue;
      const double hours = times_s_[k] / kHour;
      const double lasts = mode.served ? mode.time.in_s() / kHour : hours;
      const int machines = plan_.machines[mode.offer];
      // More replicas than the GPUs that are there hold.
      if (mode.served && !rented &&
          mode.gang * (hours / lasts) > offer.gpus * machines * (1 + 1e-9))
        continue;
      const double start = max(job.arrival, offer.delivery).in_s() / kHour;
      const auto& deadline = problem_.limits.deadline;
      const Seconds last = job.deadline && deadline ? min(*job.deadline, *deadline)
                           : job.deadline           ? *job.deadline
                           : deadline               ? *deadline
                                                    : Seconds(1e15);
      if (start + lasts > last.in_s() / kHour * (1 + 1e-9)) continue;
      const double energy = rented ? 0
                                   : mode.extra_energy.in_j() * (times_s_[k] / mode.time.in_s()) /
                                         3.6e6 * usd_per_kwh();
      const std::size_t x =
          program_.add_variable(goal_ == PurchaseGoal::Makespan ? 0 : -energy, 0, job.count);
      if (energy > 0) spend_.push_back({x, energy});
      all[mode.job].push_back({x, 1});
      filled_[mode.offer].push_back({x, mode.gang * hours});
      if (goal_ != PurchaseGoal::Cost)
        program_.add_row({{horizon_, 1}, {x, -(start + lasts) / job.count}}, 0, kInfinity);
    }
    for (std::size_t j = 0; j < all.size(); ++j)
      program_.add_row(std::move(all[j]), problem_.jobs[j].count, problem_.jobs[j].count);
  }

  void add_machines() {
    for (std::size_t o = 0; o < problem_.offers.size(); ++o) {
      if (filled_[o].empty()) continue;
      const Offer& offer = problem_.offers[o];
      if (offer.tenure == Tenure::Rented) {
        const std::size_t hours =
            program_.add_variable(goal_ == PurchaseGoal::Makespan ? 0 : -offer.usd_per_hour);
        spend_.push_back({hours, offer.usd_per_hour});
        filled_[o].push_back({hours, -static_cast<double>(offer.gpus)});
        program_.add_row(std::move(filled_[o]), -kInfinity, 0);
        continue;
      }
      const double gpus = static_cast<double>(offer.gpus) * plan_.machines[o] * problem_.usable;
      filled_[o].push_back({horizon_, -gpus});
      program_.add_row(std::move(filled_[o]), -kInfinity, -gpus * offer.delivery.in_s() / kHour);
    }
  }

  const PurchaseProblem& problem_;
  PurchaseGoal goal_;
  const Purchase& plan_;
  const std::vector<double>& times_s_;
  LinearProgram program_;
  std::size_t horizon_ = 0;
  double hardware_usd_ = 0, constant_usd_ = 0;
  std::vector<Term> spend_;
  std::vector<std::vector<Term>> filled_;
};

/// Share of the planned replicas that are held. Spare ones, planned to be certain, stay: only a
/// world that needs more than all of them has more, only one that needs fewer than were expected to
/// do has fewer.
double held_share(const ServedGangs& served, double error) {
  const double needed = served.needed_share(error);
  return needed > 1 ? needed : std::min(1.0, needed / served.needed_share(0));
}

/// Times of all modes when rates are off by `errors`, ln(true / predicted about the corrected
/// mean).
std::vector<double> times_in(const PurchaseProblem& problem, const PlanMatrix& matrix,
                             const std::vector<std::size_t>& cell_of_mode,
                             const std::vector<double>& errors) {
  std::vector<double> times;
  for (std::size_t k = 0; k < problem.modes.size(); ++k) {
    const std::size_t cell = cell_of_mode[k];
    double error = errors[cell] - matrix.field.mean[cell];
    if (const auto& reference = matrix.reference[problem.modes[k].job])
      error -= errors[*reference] - matrix.field.mean[*reference];
    // Who serves takes as long as it takes, on more or fewer of the GPUs that are there.
    const auto& served = problem.modes[k].served;
    times.push_back(problem.modes[k].time.in_s() *
                    (served ? held_share(*served, error) : std::exp(-error)));
  }
  return times;
}

/// The cell whose error goes most with the winner's lead over the best other plan.
std::optional<UsefulMeasurement> most_useful(const std::vector<std::vector<double>>& worlds,
                                             const std::vector<double>& leads,
                                             const std::vector<std::size_t>& cell_of_mode) {
  std::vector<std::size_t> cells = cell_of_mode;
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  std::optional<UsefulMeasurement> best;
  for (const std::size_t cell : cells) {
    double n = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    for (std::size_t w = 0; w < worlds.size(); ++w) {
      if (!std::isfinite(leads[w])) continue;
      const double a = worlds[w][cell], b = leads[w];
      n += 1, x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
    }
    if (n < 10) continue;
    const double vx = xx - x * x / n, vy = yy - y * y / n, c = xy - x * y / n;
    if (!(vx > 1e-12 && vy > 1e-12)) continue;
    const double share = c * c / (vx * vy);
    if (!best || share > best->settles) best = UsefulMeasurement{cell, share};
  }
  return best;
}

}  // namespace

std::optional<double> objective_in_world(const PurchaseProblem& problem, PurchaseGoal goal,
                                         const Purchase& plan, const std::vector<double>& times_s) {
  return WorldProgram(problem, goal, plan, times_s).solve();
}

Robustness judge_plans(const PurchaseProblem& problem, PurchaseGoal goal,
                       const std::vector<Purchase>& plans, const PlanMatrix& matrix,
                       const std::vector<std::size_t>& cell_of_mode, std::size_t worlds,
                       std::uint64_t seed) {
  Robustness result;
  result.worlds = worlds;
  result.plans.resize(plans.size());
  const auto errors = draw_worlds(matrix.field, worlds, seed);
  std::vector<std::vector<double>> values(plans.size());
  std::vector<double> leads;
  // A world's program lays jobs in parts: it tells what errors change, relative to its own answer
  // without any. So the plan's figure is that of the world without errors.
  std::vector<double> as_planned;
  for (const Mode& mode : problem.modes) as_planned.push_back(mode.time.in_s());
  std::vector<double> in_whole;
  for (const Purchase& plan : plans) {
    const auto in_parts = objective_in_world(problem, goal, plan, as_planned);
    in_whole.push_back(in_parts && *in_parts > 0 ? plan.objective / *in_parts : 1);
  }
  for (const std::vector<double>& world : errors) {
    const std::vector<double> times = times_in(problem, matrix, cell_of_mode, world);
    std::optional<std::size_t> best;
    std::vector<std::optional<double>> here;
    for (std::size_t p = 0; p < plans.size(); ++p) {
      here.push_back(objective_in_world(problem, goal, plans[p], times));
      if (!here[p]) continue;
      *here[p] *= in_whole[p];
      result.plans[p].holds += 1;
      values[p].push_back(*here[p]);
      if (!best || *here[p] < *here[*best] * (1 - 1e-9)) best = p;
    }
    if (best) result.plans[*best].best += 1;
    double rival = std::numeric_limits<double>::infinity();
    for (std::size_t p = 1; p < plans.size(); ++p)
      if (here[p]) rival = std::min(rival, *here[p]);
    leads.push_back(here[0] ? *here[0] - rival : std::numeric_limits<double>::infinity());
  }
  for (std::size_t p = 0; p < plans.size(); ++p) {
    PlanOdds& odds = result.plans[p];
    odds.best /= static_cast<double>(worlds);
    odds.holds /= static_cast<double>(worlds);
    std::sort(values[p].begin(), values[p].end());
    if (values[p].empty()) continue;
    const auto at = [&](double part) {
      return values[p][static_cast<std::size_t>(part * static_cast<double>(values[p].size() - 1))];
    };
    odds.objective_low = at(0.05);
    odds.objective_high = at(0.95);
  }
  if (plans.size() > 1) result.measurement = most_useful(errors, leads, cell_of_mode);
  return result;
}

}  // namespace tracecast::plan
