#pragma once
#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

/// Part of the network whose weights are gathered together.
struct ShardedUnit {
  Seconds forward{}, backward{};  ///< of one micro-batch
  Seconds gather{}, scatter{};    ///< weights to all ranks; gradients summed, each rank its part
};
struct ShardedProblem {
  std::vector<ShardedUnit> units{};  ///< in forward order
  std::int64_t micro_batches = 1;
  bool keeps_gathered = false;  ///< from forward to backward pass
  int gathered_ahead = 1;       ///< units beyond the running one
  /// Kernels run so much slower while a collective keeps SMs busy: 1 / (1 - share of SMs).
  double slow_down = 1;
};
struct ShardedRun {
  Seconds makespan{};
  Seconds compute{};  ///< the compute stream works
  Seconds communication{};
};

/// Micro-batches one after the other on a compute stream and a stream of collectives: forward, unit
/// by unit, weights gathered so many units ahead; backward the other way, where the gather of the
/// next unit goes before the scatter of the one done (PyTorch FSDP, BackwardPrefetch.BACKWARD_PRE).
/// Kernels and collectives that overlap slow each other down: kernels take slow_down times as long
/// for as long as collectives run.
[[nodiscard]] ShardedRun run_sharded(const ShardedProblem& problem);

}  // namespace tracecast
