#pragma once
#include <optional>
#include <vector>

#include "models/ranks_program.hpp"
#include "traces/ranks/waiting.hpp"
#include "traces/replay/program.hpp"

namespace tracecast::traces {

/// The ranks of a recording as one job.
struct RanksBuild {
  RanksProgram job;
  std::vector<ReplayAccount> accounts;       ///< by rank
  std::optional<CollectiveWaiting> waiting;  ///< of several ranks with collectives in common
  std::optional<SingleCollectives> single;   ///< of a single rank with collectives
};

/// Rebuilds the programs of all traces (build_replay_program) and joins them: a matched collective
/// (match_collectives) moves data once all its ranks have arrived, for
/// MatchedCollective::moving_ns. Ranks whose clocks could be set begin as far apart as they were
/// recorded; the rest at the same moment. Shifting all recordings together does not change the job.
/// Throws InputError as build_replay_program does.
[[nodiscard]] RanksBuild build_ranks_program(const std::vector<Trace>& traces,
                                             const KernelNames& names);
/// The same from programs that were rebuilt before, one for each trace: moved to another GPU, say.
/// Joined collectives take their recorded moving time.
[[nodiscard]] RanksBuild build_ranks_program(const std::vector<Trace>& traces,
                                             const KernelNames& names,
                                             const std::vector<ReplayBuild>& ranks);

}  // namespace tracecast::traces
