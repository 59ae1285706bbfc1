#pragma once
#include <cstddef>
#include <optional>
#include <vector>

namespace tracecast::plan {

/// Jobs that are alike in a program of fair shares; all of them get the same shares.
struct FairRow {
  double copies = 1;          ///< how many such jobs
  double gpus = 1;            ///< that one of them holds while it runs
  std::vector<double> rates;  ///< by GPU type; 0: cannot run there
  /// What is asked of sum_t rates_t x_t at the level z: FairGoal says how these count.
  double weight = 1;
  double work = 0, elapsed = 0, reference = 0;
};

enum class FairGoal {
  /// Largest z with sum_t rates_t x_t >= weight z for every job.
  LargestRate,
  /// Least z with (elapsed + work / sum_t rates_t x_t) / reference <= z for every job: elapsed
  /// seconds so far, work left,
  /// reference the seconds it would take in all with a share of its own.
  LeastFinishRatio,
};

/// Shares x of time on GPU types: x >= 0, sum_t x_kt <= 1 for every job k, sum_k copies_k gpus_k
/// x_kt <= capacity_t for every type, at the best level of the goal.
struct FairProgram {
  FairGoal goal = FairGoal::LargestRate;
  std::vector<double> capacity;  ///< GPUs by type
  std::vector<FairRow> rows;
};

struct FairShares {
  double level = 0;       ///< z, within 1e-7 of the best
  std::vector<double> x;  ///< rows x types
  double gap =
      0;  ///< what is left of the residuals and the duality gap, relative; of solve() below 1e-7
  int newton_steps = 0;
};

/// The best shares, and of many that are equally good those in the middle: the end of the central
/// path, where the GEMM of all slacks is largest (what an interior-point solver returns, and
/// Gavel's results were made with one). With the barrier B = - sum over jobs of log of x_t, of 1 -
/// sum x, and of what is above the demand, - sum_t log of free capacity, Newton's method minimizes
/// -+ z / mu + B while mu falls to 1e-7 over the number of logarithms (Boyd and Vandenberghe,
/// Convex Optimization, 2004, section 11.3). A step is linear in the number of rows: blocks of one
/// row each, bordered by z and the capacities. Needs rows with at least one positive rate each,
/// copies, gpus, weights and capacities above zero. With `fixed_level` the middle of all shares
/// that reach at least that level, which must be feasible with room.
[[nodiscard]] FairShares solve(const FairProgram& program,
                               std::optional<double> fixed_level = std::nullopt);

}  // namespace tracecast::plan
