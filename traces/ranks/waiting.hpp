#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "traces/ranks/match.hpp"

namespace tracecast::traces {

/// Collectives of one kind among as many ranks.
struct CollectiveKindTime {
  std::optional<Collective> kind;
  std::int64_t ranks = 0;
  std::uint64_t collectives = 0;          ///< each counted once, not once a rank
  std::int64_t wait_ns = 0, move_ns = 0;  ///< sums over ranks
  std::uint64_t sized = 0;                ///< of the collectives, those whose size is recorded
  std::uint64_t bytes = 0;                ///< of these
  std::int64_t sized_moving_ns = 0;       ///< from last arrival to end, of these, each once
};
/// What a rank waited, and what others waited for it.
struct RankWaiting {
  Tally kernels;  ///< matched ones
  std::int64_t wait_ns = 0;
  std::uint64_t last = 0;    ///< collectives to which it came last
  std::int64_t held_ns = 0;  ///< waiting of all other ranks in these
};

/// NCCL's time over all ranks of a job, split into waiting and moving.
struct CollectiveWaiting {
  Tally kernels;  ///< matched ones of all ranks
  std::int64_t wait_ns = 0, move_ns = 0;
  std::uint64_t collectives = 0, incomplete = 0;
  std::vector<CollectiveKindTime> kinds;  ///< longest first
  std::vector<RankWaiting> ranks;         ///< by trace
  std::int64_t clock_sd_ns = 0;           ///< RankClock::sd_ns of the worst one
  std::map<std::string, Tally, std::less<>> unmatched;
};
[[nodiscard]] CollectiveWaiting sum_waiting(const CollectiveMatch& match);

/// What one rank's recording tells by itself: nothing of when the others came. Collectives of the
/// same kind, size and group move data for about as long each time, so what one of them takes
/// beyond the quickest is waiting, or links that others used: at least so much of the time is no
/// moving.
struct SingleCollectives {
  Tally kernels;
  Tally compared;  ///< of them, those that have a like one
  std::int64_t beyond_quickest_ns = 0;
};
[[nodiscard]] SingleCollectives compare_repeats(const Trace& trace,
                                                const std::vector<CollectiveKernel>& kernels);

}  // namespace tracecast::traces
