#pragma once
#include <vector>

#include "models/replay_job.hpp"
#include "sim/cluster/replay.hpp"
#include "sim/cluster/replay_path.hpp"

namespace tracecast {

/// A replayed job of one or more ranks.
struct JobRun {
  ReplayRun run;  ///< of all ranks; a collective's kernels begin when their own rank arrives
  std::vector<engine::Picoseconds> kernel_busy;  ///< by rank: at least one kernel running
  CriticalPath path;
};
/// Runs all ranks of the job on one clock. Throws InputError as replay() does.
[[nodiscard]] JobRun replay_job(const ReplayJob& job, const ReplayOptions& options = {});

}  // namespace tracecast
