#pragma once
#include <vector>

#include "models/ranks_program.hpp"
#include "sim/replay/replay.hpp"
#include "sim/replay/replay_path.hpp"

namespace tracecast {

/// One or more ranks, replayed together.
struct RanksRun {
  ReplayRun run;  ///< of all ranks; a collective's kernels begin when their own rank arrives
  std::vector<engine::Picoseconds> kernel_busy;  ///< by rank: at least one kernel running
  CriticalPath path;
};
/// Runs all ranks on one clock. Throws InputError as replay() does.
[[nodiscard]] RanksRun run_ranks(const RanksProgram& job, const ReplayOptions& options = {});

}  // namespace tracecast
