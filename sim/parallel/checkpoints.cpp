#include "sim/parallel/checkpoints.hpp"

#include <cmath>

#include "sim/base/error.hpp"

namespace tracecast {

double useful_share(const ClusterFailures& failures, std::uint32_t nodes, Seconds interval) {
  const Seconds mtbf = failures.node_mtbf / static_cast<double>(nodes);
  const double segment = (interval + failures.checkpoint_write) / mtbf;
  // Infinite where hardly a segment ever ends: nothing useful comes of it.
  return interval / mtbf / (std::exp(failures.restart / mtbf) * std::expm1(segment));
}

CheckpointPlan plan_checkpoints(const ClusterFailures& failures, std::uint32_t nodes) {
  TRACECAST_CHECK(
      nodes > 0 && failures.node_mtbf > Seconds(0) && failures.checkpoint_write > Seconds(0),
      "failures have a rate and checkpoints take time");
  CheckpointPlan plan;
  plan.cluster_mtbf = failures.node_mtbf / static_cast<double>(nodes);
  const double half = failures.checkpoint_write / (2 * plan.cluster_mtbf);
  if (half < 1) {
    const double root = std::sqrt(half);
    plan.interval =
        2 * plan.cluster_mtbf * root * (1 + root / 3 + half / 9) - failures.checkpoint_write;
  } else {
    plan.interval = plan.cluster_mtbf;
  }
  plan.useful_share = useful_share(failures, nodes, plan.interval);
  return plan;
}

}  // namespace tracecast
