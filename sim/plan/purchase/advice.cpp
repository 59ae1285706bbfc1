#include "sim/plan/purchase/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace tracecast::plan {
namespace {

constexpr double kHour = 3600;
const char* const kLimits[] = {"budget", "power", "rack", "deadline"};

/// A limit as a number to read and to set.
double given(const PurchaseLimits& limits, std::string_view limit) {
  if (limit == "budget") return limits.budget_usd.value_or(0);
  if (limit == "power") return limits.power.value_or(Watts{}).in_w() / 1000;
  if (limit == "rack") return limits.rack_units.value_or(0);
  return limits.deadline.value_or(Seconds{}).in_s() / kHour;
}
bool has(const PurchaseLimits& limits, std::string_view limit) {
  if (limit == "budget") return limits.budget_usd.has_value();
  if (limit == "power") return limits.power.has_value();
  if (limit == "rack") return limits.rack_units.has_value();
  return limits.deadline.has_value();
}
void set(PurchaseLimits& limits, std::string_view limit, double value) {
  if (limit == "budget") {
    limits.budget_usd = value;
  } else if (limit == "power") {
    limits.power = Watts(value * 1000);
  } else if (limit == "rack") {
    limits.rack_units = static_cast<int>(std::floor(value + 1e-9));
  } else {
    limits.deadline = Seconds(value * kHour);
  }
}
double used(const PurchaseBill& bill, std::string_view limit) {
  if (limit == "budget") return bill.spend_usd();
  if (limit == "power") return bill.power.in_w() / 1000;
  if (limit == "rack") return bill.rack_units;
  return bill.makespan.in_s() / kHour;
}

bool may_drop(const Offer& offer) { return offer.tenure != Tenure::Owned; }

/// The problem with only those offers that `keeps` says; owned machines stay.
PurchaseProblem with_offers(const PurchaseProblem& problem,
                            const std::function<bool(std::size_t)>& keeps) {
  PurchaseProblem other = problem;
  for (std::size_t o = 0; o < other.offers.size(); ++o) {
    if (may_drop(other.offers[o]) && !keeps(o)) other.offers[o].most = 0;
  }
  return other;
}

std::string change(double usd) {
  return fmt::format("{}{:.0f}", usd < 0 ? "-" : "+", std::abs(usd));
}

std::string why_lost(const Purchase& winner, const Purchase& other, PurchaseGoal goal) {
  const PurchaseBill &a = winner.bill, &b = other.bill;
  if (goal == PurchaseGoal::Makespan) {
    return fmt::format("done {:.1f} h later for {} USD",
                       (other.objective - winner.objective) / kHour,
                       change(b.cost_usd() - a.cost_usd()));
  }
  std::string text = fmt::format("costs {:.0f} USD more", b.cost_usd() - a.cost_usd());
  const std::pair<const char*, double> parts[] = {{"machines", b.charged_usd - a.charged_usd},
                                                  {"rent", b.rent_usd - a.rent_usd},
                                                  {"energy", b.energy_usd - a.energy_usd},
                                                  {"hosting", b.hosting_usd - a.hosting_usd}};
  std::string list;
  for (const auto& [name, usd] : parts) {
    if (std::abs(usd) >= 0.5)
      list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, change(usd));
  }
  return list.empty() ? text : text + ": " + list;
}

bool same(const Purchase& a, const Purchase& b) {
  if (a.machines != b.machines) return false;
  for (std::size_t o = 0; o < a.rented_hours.size(); ++o)
    if (std::abs(a.rented_hours[o] - b.rented_hours[o]) > 1e-6 * (1 + a.rented_hours[o]))
      return false;
  return true;
}

std::string describe(const std::vector<BindingLimit>& limits) {
  std::string text;
  for (const BindingLimit& limit : limits) {
    if (!text.empty()) text += ", or ";
    text += limit.needed ? fmt::format("{} {:.4g} instead of {:.4g}", limit.limit, *limit.needed,
                                       limit.given)
                         : std::string("jobs that run on none of these by their own deadlines");
  }
  return "no plan: would take " + text;
}

/// Every way to ask again without something.
std::vector<std::pair<std::string, PurchaseProblem>> variations(const PurchaseProblem& problem,
                                                                const Purchase& winner) {
  std::vector<std::pair<std::string, PurchaseProblem>> others;
  bool buys = false, rents = false;
  for (std::size_t o = 0; o < problem.offers.size(); ++o) {
    const Offer& offer = problem.offers[o];
    (offer.tenure == Tenure::Bought ? buys : rents) |= may_drop(offer);
    if (may_drop(offer) && winner.machines[o] > 0)
      others.emplace_back("without " + offer.id,
                          with_offers(problem, [o](std::size_t other) { return other != o; }));
  }
  if (buys && rents) {
    for (const Tenure tenure : {Tenure::Bought, Tenure::Rented}) {
      others.emplace_back(
          fmt::format("only {}", to_string(tenure)),
          with_offers(problem, [&](std::size_t o) { return problem.offers[o].tenure == tenure; }));
    }
  }
  for (std::size_t o = 0; o < problem.offers.size(); ++o) {
    if (may_drop(problem.offers[o]))
      others.emplace_back("only " + problem.offers[o].id,
                          with_offers(problem, [o](std::size_t other) { return other == o; }));
  }
  return others;
}

}  // namespace

std::vector<RunnerUp> runners_up(const PurchaseProblem& problem, const PurchaseSearch& search,
                                 const Purchase& winner, std::size_t most) {
  PurchaseSearch quick = search;
  quick.most_seconds = std::min(5.0, search.most_seconds);
  std::vector<RunnerUp> found, none;
  for (auto& [what, other] : variations(problem, winner)) {
    RunnerUp runner{what, find_purchase(other, quick), {}};
    if (!runner.plan) {
      runner.why = describe(limits_that_bind(other));
      none.push_back(std::move(runner));
      continue;
    }
    const bool is_known = same(*runner.plan, winner) ||
                          std::any_of(found.begin(), found.end(), [&](const RunnerUp& known) {
                            return same(*known.plan, *runner.plan);
                          });
    if (is_known) continue;
    runner.why = why_lost(winner, *runner.plan, search.goal);
    found.push_back(std::move(runner));
  }
  // By objective, of equal ones the first found.
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t r = 0; r < found.size(); ++r) order.emplace_back(found[r].plan->objective, r);
  std::sort(order.begin(), order.end());
  std::vector<RunnerUp> ranked;
  for (const auto& [objective, r] : order) ranked.push_back(std::move(found[r]));
  found = std::move(ranked);
  if (found.size() > most) found.resize(most);
  found.insert(found.end(), none.begin(), none.end());
  return found;
}

std::vector<LimitEffect> effects_of_limits(const PurchaseProblem& problem,
                                           const PurchaseSearch& search, const Purchase& winner) {
  PurchaseSearch quick = search;
  quick.most_seconds = std::min(5.0, search.most_seconds);
  std::vector<LimitEffect> effects;
  for (const std::string_view limit : kLimits) {
    if (!has(problem.limits, limit)) continue;
    const double value = given(problem.limits, limit);
    const std::pair<double, std::string> steps[] = {
        limit == "budget"  ? std::pair{1000.0, std::string("1000 USD")}
        : limit == "power" ? std::pair{1.0, std::string("1 kW")}
        : limit == "rack"  ? std::pair{1.0, std::string("1 rack unit")}
                           : std::pair{24.0, std::string("1 day")},
        {value / 10, "10 %"}};
    for (const auto& [more, name] : steps) {
      PurchaseProblem wider = problem;
      set(wider.limits, limit, value + more);
      const auto plan = find_purchase(wider, quick);
      LimitEffect effect{std::string(limit), name, value, used(winner.bill, limit), {}, 0};
      if (plan) {
        effect.objective =
            std::min(plan->objective, limit == "deadline" ? plan->objective : winner.objective);
        effect.gain = std::max(0.0, winner.objective - plan->objective);
      }
      effects.push_back(std::move(effect));
    }
  }
  return effects;
}

std::vector<BindingLimit> limits_that_bind(const PurchaseProblem& problem) {
  constexpr int kDoublings = 14;
  constexpr double kFine = 1.002;
  const auto works = [](const PurchaseProblem& p) {
    if (p.limits.deadline) return find_purchase(p, {.most_seconds = 3, .gap = 1}).has_value();
    return find_purchase(p, {.goal = PurchaseGoal::Makespan, .most_seconds = 3}).has_value();
  };
  std::vector<BindingLimit> found;
  for (const std::string_view limit : kLimits) {
    if (!has(problem.limits, limit)) continue;
    const double value = given(problem.limits, limit);
    PurchaseProblem other = problem;
    double low = std::max(value, 1e-3), high = low;
    bool possible = false;
    for (int doubling = 0; doubling < kDoublings && !possible; ++doubling) {
      low = high;
      high *= 2;
      set(other.limits, limit, high);
      possible = works(other);
    }
    if (!possible) continue;
    while (high / low > kFine && !(limit == "rack" && high - low < 1)) {
      const double middle = std::sqrt(low * high);
      set(other.limits, limit, middle);
      (works(other) ? high : low) = middle;
    }
    found.push_back({std::string(limit), value, limit == "rack" ? std::floor(high) : high});
  }
  if (found.empty()) found.push_back({"all", 0, std::nullopt});
  return found;
}

std::vector<PriceChange> prices_that_matter(const PurchaseProblem& problem, const Purchase& winner,
                                            const Purchase& rival) {
  std::vector<PriceChange> changes;
  const double lead = rival.bill.cost_usd() - winner.bill.cost_usd();
  const auto& life = problem.costs.amortisation;
  const double share = life ? std::min(1.0, winner.horizon / *life) : 1;
  for (std::size_t o = 0; o < problem.offers.size(); ++o) {
    const Offer& offer = problem.offers[o];
    const double mine = offer.tenure == Tenure::Rented
                            ? winner.rented_hours[o] * offer.usd_per_hour
                            : winner.machines[o] * offer.price_usd * share;
    const double theirs = offer.tenure == Tenure::Rented
                              ? rival.rented_hours[o] * offer.usd_per_hour
                              : rival.machines[o] * offer.price_usd * share;
    if (std::abs(mine - theirs) < 1e-9 * (1 + mine + theirs)) continue;
    const double factor = 1 + lead / (mine - theirs);
    if (factor > 0 && factor < 10) changes.push_back({offer.id, factor});
  }
  std::sort(changes.begin(), changes.end(), [](const PriceChange& a, const PriceChange& b) {
    return std::abs(std::log(a.factor)) < std::abs(std::log(b.factor));
  });
  return changes;
}

}  // namespace tracecast::plan
