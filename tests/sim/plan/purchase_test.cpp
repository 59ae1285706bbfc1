#include "sim/plan/purchase/purchase.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "tests/sim/plan/random_purchase.hpp"

namespace tracecast::plan::test {
namespace {

TEST_SUITE_BEGIN("sim/plan/purchase");

/// The cheapest plan by trying every assignment; the machines follow: as few of each as its jobs
/// fill. That is best since each machine costs something and takes power and room.
class Exhaustive {
 public:
  explicit Exhaustive(const PurchaseProblem& problem) : problem_(problem) {
    assigned_.assign(problem.modes.size(), 0);
    by_job_.resize(problem.jobs.size());
    for (std::size_t k = 0; k < problem.modes.size(); ++k)
      by_job_[problem.modes[k].job].push_back(k);
  }
  std::optional<double> cheapest() {
    try_job(0);
    return best_;
  }

 private:
  void try_job(std::size_t j) {
    if (j == by_job_.size()) return judge();
    for (const std::size_t k : by_job_[j]) {
      if (problem_.modes[k].time > *problem_.limits.deadline) continue;
      assigned_[k] = 1;
      try_job(j + 1);
      assigned_[k] = 0;
    }
  }

  void judge() {
    const std::size_t offers = problem_.offers.size();
    std::vector<double> gpu_h(offers, 0), longest_h(offers, 0);
    std::vector<int> widest(offers, 0);
    for (std::size_t k = 0; k < assigned_.size(); ++k) {
      if (assigned_[k] == 0) continue;
      const Mode& mode = problem_.modes[k];
      const Offer& offer = problem_.offers[mode.offer];
      const int machines = (mode.gang + offer.gpus - 1) / offer.gpus;
      gpu_h[mode.offer] += mode.gang * mode.time.in_s() / 3600;
      longest_h[mode.offer] = std::max(longest_h[mode.offer], machines * mode.time.in_s() / 3600);
      widest[mode.offer] = std::max(widest[mode.offer], machines);
    }
    std::vector<int> machines(offers, 0);
    std::vector<double> hours(offers, 0);
    const double horizon_h = problem_.limits.deadline->in_s() / 3600;
    for (std::size_t o = 0; o < offers; ++o) {
      const Offer& offer = problem_.offers[o];
      if (offer.tenure == Tenure::Rented) {
        hours[o] = std::max(gpu_h[o] / offer.gpus, longest_h[o]);
        if (gpu_h[o] > offer.most * offer.gpus * horizon_h || widest[o] > offer.most) return;
      } else {
        machines[o] = std::max(
            widest[o], static_cast<int>(std::ceil(gpu_h[o] / (offer.gpus * horizon_h) - 1e-9)));
        if (machines[o] > offer.most) return;
      }
    }
    const PurchaseBill bill =
        bill_of(problem_, machines, hours, assigned_, *problem_.limits.deadline);
    const PurchaseLimits& limits = problem_.limits;
    if (limits.budget_usd && bill.spend_usd() > *limits.budget_usd * (1 + 1e-9)) return;
    if (limits.power && bill.power > *limits.power) return;
    if (limits.rack_units && bill.rack_units > *limits.rack_units) return;
    if (!best_ || bill.cost_usd() < *best_) best_ = bill.cost_usd();
  }

  const PurchaseProblem& problem_;
  std::vector<int> assigned_;
  std::vector<std::vector<std::size_t>> by_job_;
  std::optional<double> best_;
};

TEST_CASE("50 random small catalogues: the optimum of exhaustive enumeration in all") {
  int found = 0, impossible = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    PurchaseProblem problem = random_purchase(
        seed, {.types = 4, .jobs = 5 + seed % 3, .most = 4, .hours = 900, .deadline_h = 300});
    // Limits near what the cheapest plan without them takes, so that they bind in some.
    const auto free = find_purchase(problem, {.gap = 1e-9});
    if (free && seed % 2 == 0) {
      problem.limits.power = free->bill.power * (seed % 4 == 0 ? 0.8 : 1.0);
      problem.limits.rack_units = free->bill.rack_units;
      problem.limits.budget_usd = free->bill.spend_usd() * (seed % 6 == 0 ? 0.98 : 1.3);
    }
    const std::optional<double> best = Exhaustive(problem).cheapest();
    bool proven = false;
    const auto plan = find_purchase(problem, {.gap = 1e-9}, &proven);
    CHECK(proven);
    REQUIRE(plan.has_value() == best.has_value());
    if (!plan) {
      ++impossible;
      continue;
    }
    ++found;
    CHECK(plan->bill.cost_usd() == doctest::Approx(*best).epsilon(1e-6));
    CHECK(plan->gap <= 1e-6);
  }
  CHECK(found + impossible == 50);
  CHECK(found >= 30);
  CHECK(impossible >= 1);
}

Offer machine(const char* id, int gpus, double price_usd, double load_w = 0, double idle_w = 0) {
  Offer offer;
  offer.id = id;
  offer.gpus = gpus;
  offer.price_usd = price_usd;
  offer.load = Watts(load_w);
  offer.idle = Watts(idle_w);
  return offer;
}

TEST_CASE("one job on the cheaper of two machines, and the bill by hand") {
  PurchaseProblem problem;
  problem.offers.resize(2);
  problem.offers[0] = machine("slow", 2, 1000, 500, 100);
  problem.offers[1] = machine("fast", 2, 1500, 900, 200);
  problem.jobs.resize(1);
  problem.jobs[0].count = 4;
  // On the slow one 4 jobs of 60 h on one GPU fill 240 of 200 GPU hours: two machines, 2,000. The
  // fast one does with one.
  problem.modes = {{.job = 0,
                    .offer = 0,
                    .gang = 1,
                    .time = Seconds(60 * 3600.0),
                    .extra_energy = Joules(3.6e6)},
                   {.job = 0,
                    .offer = 1,
                    .gang = 1,
                    .time = Seconds(40 * 3600.0),
                    .extra_energy = Joules(7.2e6)}};
  problem.limits.deadline = Seconds(100 * 3600.0);
  problem.costs.energy_usd_per_kwh = 0.5;
  problem.costs.pue = 2;
  const auto plan = find_purchase(problem, {});
  REQUIRE(plan);
  CHECK(plan->machines == std::vector<int>{0, 1});
  CHECK(plan->assigned == std::vector<int>{0, 4});
  // Idle 0.2 kW x 100 h = 20 kWh, 4 jobs x 2 kWh = 8 kWh; twice for the room: 56 kWh, 28 USD.
  CHECK(plan->bill.energy_kwh == doctest::Approx(56));
  CHECK(plan->bill.cost_usd() == doctest::Approx(1528));
  CHECK(plan->bill.makespan.in_s() == doctest::Approx(80 * 3600.0));
}

TEST_CASE("least makespan under a budget buys what the budget allows") {
  PurchaseProblem problem;
  problem.offers.resize(1);
  problem.offers[0] = machine("box", 1, 100);
  problem.jobs.resize(1);
  problem.jobs[0].count = 12;
  problem.modes = {{.job = 0, .offer = 0, .gang = 1, .time = Seconds(3600.0), .extra_energy = {}}};
  problem.limits.budget_usd = 450;
  const auto plan = find_purchase(problem, {.goal = PurchaseGoal::Makespan});
  REQUIRE(plan);
  CHECK(plan->machines == std::vector<int>{4});
  CHECK(plan->objective == doctest::Approx(3 * 3600.0).epsilon(1e-3));  // 12 hours over 4 GPUs
  CHECK(plan->gap < 1e-3);
}

TEST_CASE("a chain of jobs ends after both, and a late delivery is waited for") {
  PurchaseProblem problem;
  problem.offers.resize(2);
  problem.offers[0] = machine("now", 1, 300);
  problem.offers[1] = machine("later", 1, 100);
  problem.offers[1].delivery = Seconds(10 * 3600.0);
  problem.jobs.resize(2);
  problem.jobs[1].after = {0};
  for (std::size_t job = 0; job < 2; ++job)
    for (std::size_t offer = 0; offer < 2; ++offer)
      problem.modes.push_back({job, offer, 1, Seconds(4 * 3600.0), {}});
  problem.limits.deadline = Seconds(20 * 3600.0);  // 10 + 4 + 4 fit
  auto plan = find_purchase(problem, {});
  REQUIRE(plan);
  CHECK(plan->bill.cost_usd() == doctest::Approx(100));
  problem.limits.deadline = Seconds(15 * 3600.0);  // two in a row end at 18 on the late one
  plan = find_purchase(problem, {});
  REQUIRE(plan);
  CHECK(plan->bill.cost_usd() == doctest::Approx(300));
}

TEST_CASE("a machine works from its delivery on: the later it comes, the more of them are bought") {
  // 100 GPU hours of jobs of 10 h until 100 h: machines * (100 - delivery) >= 100.
  PurchaseProblem problem;
  problem.offers = {machine("later", 1, 100)};
  problem.offers[0].most = 20;
  problem.jobs.resize(1);
  problem.jobs[0].count = 10;
  problem.modes = {
      {.job = 0, .offer = 0, .gang = 1, .time = Seconds(10 * 3600.0), .extra_energy = {}}};
  problem.limits.deadline = Seconds(100 * 3600.0);
  struct Row {
    double delivery_h;
    int machines;
  };
  for (const Row& row : {Row{0, 1}, {50, 2}, {75, 4}, {90, 10}}) {
    CAPTURE(row.delivery_h);
    problem.offers[0].delivery = Seconds(row.delivery_h * 3600);
    const auto plan = find_purchase(problem, {});
    REQUIRE(plan);
    CHECK(plan->machines == std::vector{row.machines});
    CHECK(plan->bill.makespan.in_s() == doctest::Approx(100 * 3600.0));
  }
  // One that comes 5 h before the end has no time for any job of 10.
  problem.offers[0].delivery = Seconds(95 * 3600.0);
  CHECK_FALSE(find_purchase(problem, {}));
}

TEST_CASE(
    "what is bought is charged by its share of the years it is written off in, at most whole") {
  // One job of 100 h until 100 h: a machine of 1000 USD, or one that is rented.
  PurchaseProblem problem;
  problem.offers = {machine("bought", 1, 1000), machine("rented", 1, 0)};
  problem.offers[1].tenure = Tenure::Rented;
  problem.jobs.resize(1);
  for (std::size_t offer = 0; offer < 2; ++offer)
    problem.modes.push_back({0, offer, 1, Seconds(100 * 3600.0), {}});
  problem.limits.deadline = Seconds(100 * 3600.0);
  struct Row {
    const char* what;
    double years_in_h, usd_per_hour;
    int bought;
    double usd;
  };
  const Row rows[] = {
      {"a tenth of 1000, for 300 of rent", 1000, 3, 1, 100},
      {"50 of rent, for a tenth", 1000, 0.5, 0, 50},
      {"all of 1000 though its time is over, for 1500 of rent", 50, 15, 1, 1000},
      {"900 of rent, for all", 50, 9, 0, 900},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    problem.costs.amortisation = Seconds(row.years_in_h * 3600);
    problem.offers[1].usd_per_hour = row.usd_per_hour;
    const auto plan = find_purchase(problem, {});
    REQUIRE(plan);
    CHECK(plan->machines[0] == row.bought);
    CHECK(plan->bill.cost_usd() == doctest::Approx(row.usd));
    CHECK(plan->objective == doctest::Approx(row.usd));
  }
}

TEST_CASE("a later deadline costs no more per job, where machines cost until the last job ends") {
  int compared = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    PurchaseProblem problem =
        random_purchase(seed, {.types = 3, .jobs = 4, .most = 4, .hours = 900, .deadline_h = 300});
    // Purchases are charged over four years, as catalogues have it: what is bought costs by the
    // hour.
    problem.costs.amortisation = Seconds(4 * 8760 * 3600.0);
    std::optional<double> before;
    for (const double hours : {200, 300, 420, 900}) {
      CAPTURE(hours);
      problem.limits.deadline = Seconds(3600 * hours);
      const auto plan = find_purchase(problem, {.goal = PurchaseGoal::CostPerJob, .gap = 1e-6});
      if (!plan) continue;
      if (before) {
        ++compared;
        CHECK(plan->objective <= *before * 1.002);
      }
      before = plan->objective;
    }
  }
  CHECK(compared >= 12);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::plan::test
