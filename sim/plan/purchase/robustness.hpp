#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/purchase/matrix.hpp"
#include "sim/plan/purchase/purchase.hpp"

namespace tracecast::plan {

/// How a plan fares over worlds drawn from the intervals.
struct PlanOdds {
  double best = 0;   ///< share of the worlds in which no other plan is better
  double holds = 0;  ///< in which it keeps to the deadline and the budget
  double objective_low = 0, objective_high = 0;  ///< 5 % and 95 % of the worlds in which it holds
};
/// A measurement and how much of the doubt it would settle.
struct UsefulMeasurement {
  std::size_t cell = 0;
  double settles =
      0;  ///< share of the variance of (winner - best other) that goes with this cell's error
};
struct Robustness {
  std::vector<PlanOdds> plans;  ///< in their order, the winner first
  std::size_t worlds = 0;
  std::optional<UsefulMeasurement> measurement;
};

/// Evaluates plans in worlds where every rate is off by what was drawn: the machines stay, jobs are
/// divided anew among them (as a linear program, jobs in parts), since who owns machines measures
/// on them. A plan's objective is multiplied by what the program says of a world over what it says
/// without errors.
[[nodiscard]] Robustness judge_plans(const PurchaseProblem& problem, PurchaseGoal goal,
                                     const std::vector<Purchase>& plans, const PlanMatrix& matrix,
                                     const std::vector<std::size_t>& cell_of_mode,
                                     std::size_t worlds, std::uint64_t seed);

/// The plan's objective when the modes take `times`; nothing: it cannot keep to the limits.
[[nodiscard]] std::optional<double> objective_in_world(const PurchaseProblem& problem,
                                                       PurchaseGoal goal, const Purchase& plan,
                                                       const std::vector<double>& times_s);

}  // namespace tracecast::plan
