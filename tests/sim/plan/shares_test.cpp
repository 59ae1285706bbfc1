#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/plan/assignment.hpp"
#include "sim/plan/fair_program.hpp"
#include "sim/plan/linear_program.hpp"
#include "sim/plan/published_random.hpp"
#include "sim/plan/self_dual_path.hpp"

using namespace tracecast;
using namespace tracecast::plan;

namespace {

/// Random programs: up to 12 rows, 1 to 4 types, some rates zero, copies and gangs.
FairProgram random_program(std::uint64_t seed, FairGoal goal) {
  Random random(seed);
  FairProgram program;
  program.goal = goal;
  const std::size_t types = 1 + random.below(4);
  for (std::size_t t = 0; t < types; ++t)
    program.capacity.push_back(static_cast<double>(1 + random.below(12)));
  const std::size_t rows = 1 + random.below(12);
  for (std::size_t k = 0; k < rows; ++k) {
    FairRow row;
    row.copies = goal == FairGoal::LargestRate ? static_cast<double>(1 + random.below(5)) : 1;
    row.gpus = static_cast<double>(1 << random.below(4));
    for (std::size_t t = 0; t < types; ++t)
      row.rates.push_back(random.uniform() < 0.15 ? 0 : 0.1 + 5 * random.uniform());
    row.rates[random.below(types)] = 1 + random.uniform();
    row.weight = 0.5 + random.uniform();
    row.work = 10 + 1000 * random.uniform();
    row.elapsed = 500 * random.uniform();
    row.reference = 100 + 2000 * random.uniform();
    program.rows.push_back(std::move(row));
  }
  return program;
}

/// The same as a linear program written down on its own: every copy a job of its own, `need[k] z +
/// fixed[k]` asked of row k.
double best_level(const FairProgram& program, bool with_level, const std::vector<double>& fixed) {
  LinearProgram lp;
  const std::size_t z = lp.add_variable(1, 0, with_level ? LinearProgram::kInfinity : 0);
  std::vector<std::vector<LinearProgram::Term>> used(program.capacity.size());
  for (std::size_t k = 0; k < program.rows.size(); ++k) {
    const FairRow& row = program.rows[k];
    for (int copy = 0; copy < row.copies; ++copy) {
      std::vector<LinearProgram::Term> time, rate{{z, -row.weight}};
      for (std::size_t t = 0; t < program.capacity.size(); ++t) {
        const std::size_t x = lp.add_variable(0);
        time.push_back({x, 1});
        rate.push_back({x, row.rates[t]});
        used[t].push_back({x, row.gpus});
      }
      lp.add_row(std::move(time), 0, 1);
      lp.add_row(std::move(rate), fixed.empty() ? 0 : fixed[k], LinearProgram::kInfinity);
    }
  }
  for (std::size_t t = 0; t < used.size(); ++t)
    lp.add_row(std::move(used[t]), 0, program.capacity[t]);
  const auto solution = lp.maximize();
  return solution ? solution->value : -1;
}

/// The least ratio by bisection over linear programs that only ask whether shares exist.
double best_finish_ratio(const FairProgram& program) {
  double low = 0, high = 1e9;
  for (int i = 0; i < 120; ++i) {
    const double middle = 0.5 * (low + high);
    std::vector<double> need;
    bool possible = true;
    for (const FairRow& row : program.rows) {
      const double spare = middle * row.reference - row.elapsed;
      possible = possible && spare > 0;
      need.push_back(spare > 0 ? row.work / spare : 0);
    }
    (possible && best_level(program, false, need) >= 0 ? high : low) = middle;
  }
  return high;
}

void check_feasible(const FairProgram& program, const FairShares& shares) {
  const std::size_t types = program.capacity.size();
  std::vector<double> used(types);
  for (std::size_t k = 0; k < program.rows.size(); ++k) {
    double time = 0;
    for (std::size_t t = 0; t < types; ++t) {
      const double x = shares.x[k * types + t];
      CHECK(x >= 0);
      time += x;
      used[t] += program.rows[k].copies * program.rows[k].gpus * x;
    }
    CHECK(time <= 1 + 1e-7);
  }
  for (std::size_t t = 0; t < types; ++t) CHECK(used[t] <= program.capacity[t] * (1 + 1e-7));
}

}  // namespace

TEST_SUITE("sim/plan/shares") {
  TEST_CASE(
      "both ways to the largest rate reach what a linear program does, to 1e-6, on 40 random "
      "instances") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(seed);
      const FairProgram program = random_program(seed, FairGoal::LargestRate);
      const double best = best_level(program, true, {});
      for (const FairShares& shares : {solve(program), follow_self_dual_path(program)}) {
        CHECK(std::abs(shares.level / best - 1) < 1e-6);
        check_feasible(program, shares);
        // The shares deserve the level.
        for (std::size_t k = 0; k < program.rows.size(); ++k) {
          double rate = 0;
          for (std::size_t t = 0; t < program.capacity.size(); ++t)
            rate += program.rows[k].rates[t] * shares.x[k * program.capacity.size() + t];
          CHECK(rate >= program.rows[k].weight * shares.level * (1 - 1e-6));
        }
      }
    }
  }

  TEST_CASE("the least finish ratio is what bisection over linear programs finds, to 1e-6") {
    for (std::uint64_t seed = 100; seed < 120; ++seed) {
      CAPTURE(seed);
      const FairProgram program = random_program(seed, FairGoal::LeastFinishRatio);
      const FairShares shares = solve(program);
      CHECK(std::abs(shares.level / best_finish_ratio(program) - 1) < 1e-6);
      check_feasible(program, shares);
    }
  }

  TEST_CASE("equal jobs on equal types are treated alike") {
    FairProgram program;
    program.capacity = {4, 4, 4};
    program.rows.push_back({.copies = 20, .gpus = 1, .rates = {1, 1, 1}});
    for (const FairShares& shares : {solve(program), follow_self_dual_path(program)}) {
      CHECK(shares.level == doctest::Approx(12.0 / 20));
      for (const double x : shares.x) CHECK(x == doctest::Approx(0.2).epsilon(1e-5));
    }
  }

  TEST_CASE("a fixed level is met") {
    FairProgram program;
    program.capacity = {2};
    program.rows.push_back({.copies = 1, .gpus = 1, .rates = {2}, .weight = 1});
    program.rows.push_back({.copies = 3, .gpus = 1, .rates = {1}, .weight = 1});
    // 0.4 of each: 0.2 + 3 x 0.4 GPUs of 2.
    for (const FairShares& shares : {solve(program, 0.4), follow_self_dual_path(program, 0.4)}) {
      CHECK(2 * shares.x[0] >= 0.4 - 1e-6);
      CHECK(shares.x[1] >= 0.4 - 1e-6);
      check_feasible(program, shares);
    }
  }

  TEST_CASE("whole numbers: a knapsack by hand") {
    // Values 6, 5, 4 and weights 4, 3, 2 within 5: the last two.
    LinearProgram program;
    std::vector<LinearProgram::Term> weight;
    const double values[] = {6, 5, 4}, weights[] = {4, 3, 2};
    for (int i = 0; i < 3; ++i)
      weight.push_back({program.add_variable(values[i], 0, 1, true), weights[i]});
    program.add_row(std::move(weight), 0, 5);
    const auto solution = program.maximize();
    REQUIRE(solution);
    CHECK(solution->value == doctest::Approx(9));
  }

  TEST_CASE("a program without a solution has none") {
    LinearProgram program;
    const std::size_t x = program.add_variable(1, 0, 1);
    program.add_row({{x, 1}}, 2, LinearProgram::kInfinity);
    CHECK(!program.maximize());
  }

  TEST_CASE("assignments cost as little as the best of all permutations") {
    Random random(5);
    for (int trial = 0; trial < 50; ++trial) {
      const std::size_t rows = 1 + random.below(5), columns = rows + random.below(3);
      std::vector<double> cost;
      for (std::size_t i = 0; i < rows * columns; ++i)
        cost.push_back(static_cast<double>(random.below(20)));
      const auto total = [&](const std::vector<std::size_t>& chosen) {
        double sum = 0;
        for (std::size_t r = 0; r < rows; ++r) sum += cost[r * columns + chosen[r]];
        return sum;
      };
      const std::vector<std::size_t> chosen = assign(cost, rows, columns);
      std::vector<std::size_t> sorted = chosen;
      std::sort(sorted.begin(), sorted.end());
      CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
      std::vector<std::size_t> order(columns);
      for (std::size_t c = 0; c < columns; ++c) order[c] = c;
      double best = total(order);
      while (std::next_permutation(order.begin(), order.end())) best = std::min(best, total(order));
      CHECK(total(chosen) == doctest::Approx(best));
    }
  }

  TEST_CASE("draws are those of Python's generator") {
    // python3: r = random.Random(0); [r.randrange(3) for _ in range(6)], r.random();
    // random.Random(5).randrange(36) x 6
    PublishedRandom a(0), b(5);
    for (const std::size_t expected : {1, 1, 0, 1, 2, 1}) CHECK(a.below(3) == expected);
    CHECK(a.uniform() == doctest::Approx(0.4049341374504143).epsilon(1e-15));
    for (const std::size_t expected : {16, 22, 33, 1, 29, 15}) CHECK(b.below(36) == expected);
  }
}
