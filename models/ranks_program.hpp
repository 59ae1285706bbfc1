#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "models/replay_program.hpp"
#include "sim/base/collective.hpp"

/// Recordings of several ranks as one piece of work, joined where they communicate. Readers make it
/// (traces/ranks/job.hpp); the simulator runs it (sim/replay/replay_ranks.hpp).
namespace tracecast {

/// A collective of the job, or a kernel of one whose counterparts are not recorded.
struct ReplayCollective {
  std::optional<Collective> kind;
  std::uint64_t bytes = 0;  ///< of one rank's buffer, the larger of in and out; 0 = not recorded
  std::int64_t ranks = 0;   ///< in its group; 0 = not recorded
  /// By rank that takes part: the task that ends when its kernel begins, and the kernel, which
  /// moves data when all have begun. A kernel without counterparts has no arrival (kNoTask), and
  /// its duration holds the waiting.
  struct Part {
    std::uint32_t arrival = 0, kernel = 0;
  };
  std::vector<Part> parts;
  bool is_complete = false;  ///< all ranks of its group are in the job: durations hold no waiting
  static constexpr std::uint32_t kNoTask = UINT32_MAX;
};

/// The part of the program that is one rank's.
struct ReplayRank {
  std::optional<std::int64_t> rank;  ///< as recorded
  std::uint32_t first_track = 0, end_track = 0;
  std::uint32_t first_step = 0, end_step = 0;
};

/// Tasks of all ranks in one program. When ranks begin their recordings at different moments, those
/// that begin later have a task of so much host work before everything else.
struct RanksProgram {
  ReplayProgram program;
  std::vector<ReplayRank> ranks;
  std::vector<ReplayCollective> collectives;  ///< joined ones first, in order of time
};

}  // namespace tracecast
