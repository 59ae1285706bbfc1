#pragma once
#include <optional>
#include <vector>

#include "sim/plan/purchase/job_list.hpp"
#include "sim/plan/purchase/purchase.hpp"
#include "sim/plan/schedule.hpp"

namespace tracecast::plan {

/// A job of a plan on its machines.
struct PlanResidence {
  std::size_t mode = 0;
  int number = 0;  ///< among jobs that are alike, from 0
  Seconds begin{}, end{};
};

/// A plan's jobs simulated on its machines.
struct Confirmation {
  std::vector<PlanResidence> residences;  ///< by offer, in the order of their ends
  Seconds makespan{};
  bool in_time = true;  ///< every job meets its own deadline and the plan's
};

/// Runs the plan job by job (sim/plan/schedule.hpp), each offer's machines by themselves, first
/// come first served: the longest, the widest or the most urgent first, whichever has fewest late
/// jobs and ends sooner; gangs on one machine where they fit. Whole jobs leave gaps that GPU time
/// as an area does not have. A chain's job arrives when those before it end by the plan's times.
[[nodiscard]] Confirmation confirm(const PurchaseProblem& problem, const std::vector<PlanJob>& jobs,
                                   const Purchase& plan);

/// find_purchase, then confirm; where whole jobs leave gaps that the deadline has no room for,
/// again with less of the GPU time usable, a few times. `problem.usable` says with how much the
/// answer came.
struct ConfirmedPurchase {
  std::optional<Purchase> plan;
  std::optional<Confirmation> confirmation;
  bool proven = true;
};
[[nodiscard]] ConfirmedPurchase find_confirmed(PurchaseProblem& problem,
                                               const std::vector<PlanJob>& jobs,
                                               const PurchaseSearch& search);

}  // namespace tracecast::plan
