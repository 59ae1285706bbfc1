// Work: the cheapest purchase for 60 jobs among 12 machine types under 4 limits (budget, power,
// rack units, deadline), 20 seeded instances.
#include <cstdio>

#include "sim/plan/purchase/purchase.hpp"
#include "tests/bench/bench.hpp"
#include "tests/sim/plan/random_purchase.hpp"

int main(int argc, char** argv) {
  using namespace tracecast;
  using namespace tracecast::plan;
  const std::uint64_t instances = bench::is_smoke(argc, argv) ? 1 : 20;
  bench::Stopwatch whole;
  for (std::uint64_t seed = 1; seed <= instances; ++seed) {
    PurchaseProblem problem = test::random_purchase(
        1000 + seed, {.types = 12, .jobs = 60, .most = 30, .hours = 2000, .deadline_h = 720});
    // Limits at what a plan within 5 % of the cheapest takes: they bind.
    const auto free = find_purchase(problem, {.most_seconds = 3, .gap = 0.05});
    bench::check(free.has_value(), "there is a plan without limits");
    problem.limits.power = free->bill.power;
    problem.limits.rack_units = free->bill.rack_units;
    problem.limits.budget_usd = free->bill.spend_usd() * 1.02;
    whole.start();
    bench::Stopwatch one;
    one.start();
    const auto plan = find_purchase(problem, {.most_seconds = 30, .gap = 0.005});
    one.stop();
    whole.stop();
    bench::check(plan.has_value(), "the plan that set the limits keeps them");
    bench::check(plan->bill.spend_usd() <= *problem.limits.budget_usd * (1 + 1e-6),
                 "in the budget");
    bench::check(plan->bill.power <= *problem.limits.power, "in the power");
    std::printf("seed %llu: cost %.0f USD, gap %.4f ", static_cast<unsigned long long>(seed),
                plan->bill.cost_usd(), plan->gap);
    one.print("purchase", "plan", 1);
  }
  whole.print("purchase_12_types_60_jobs_4_limits", "plan", 1);
}
