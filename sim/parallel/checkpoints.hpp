#pragma once
#include <cstdint>

#include "hwspecs/cluster_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How often to write a checkpoint, and what failures leave of the time.
struct CheckpointPlan {
  Seconds cluster_mtbf{};  ///< node_mtbf / nodes: any node that fails stops all
  Seconds interval{};      ///< of computing between two checkpoints
  /// Share of the time that computes anything that stays: without failures and checkpoints 1.
  double useful_share = 1;
};

/// Failures as a Poisson process of mean time M, checkpoints of d seconds, restarts of R seconds.
///   interval t = sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (2 M) / 9) - d   for d < 2 M, else M
///   useful share = t / (M exp(R / M) (exp((t + d) / M) - 1))
/// Sources: J. W. Young, CACM 17(9), 1974, for sqrt(2 d M); J. T. Daly, Future Generation Computer
/// Systems 22(3), 2006, equations 20 and 37, for the higher order and the expected time, in which
/// failures also strike during checkpoints and restarts. Needs node_mtbf and checkpoint_write above
/// zero, nodes above 0. Pure.
[[nodiscard]] CheckpointPlan plan_checkpoints(const ClusterFailures& failures, std::uint32_t nodes);

/// The same for an interval of one's own.
[[nodiscard]] double useful_share(const ClusterFailures& failures, std::uint32_t nodes,
                                  Seconds interval);

}  // namespace tracecast
