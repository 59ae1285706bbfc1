#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/collective.hpp"
#include "traces/ranks/collective_kernels.hpp"
#include "traces/tally.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// One rank's part of a collective.
struct CollectivePart {
  std::uint32_t trace = 0;   ///< index into the traces that were matched
  std::uint32_t kernel = 0;  ///< index into its Trace::kernels
  std::int64_t duration_ns = 0;
  std::int64_t wait_ns = 0;  ///< until the last rank was there; at most the duration
};

/// Kernels of several ranks that are one collective.
struct MatchedCollective {
  std::optional<Collective> kind;
  std::uint64_t bytes = 0;            ///< the largest of its ranks; 0 = not recorded
  std::int64_t ranks = 0;             ///< in its group, recorded or as many as were found
  std::vector<CollectivePart> parts;  ///< by trace
  std::uint32_t last = 0;             ///< part that arrived last
  std::int64_t moving_ns = 0;         ///< from there on: the median over its parts
  /// All ranks of the group are here. Otherwise the last to arrive may be missing, and waiting is
  /// at least what is said.
  bool is_complete = false;
};

/// How well the clock of a rank could be set by that of the first one.
struct RankClock {
  bool is_set = false;
  std::int64_t offset_ns = 0;  ///< added to its times; the first rank's is 0
  std::int64_t sd_ns = 0;      ///< median distance of common ends after that
  std::uint64_t anchors = 0;   ///< common ends
};

/// Several ranks of a job as one.
struct CollectiveMatch {
  std::vector<MatchedCollective> collectives;  ///< in order of their last arrival
  std::vector<RankClock> clocks;               ///< by trace
  /// Collective kernels without counterpart, by reason in words.
  std::map<std::string, Tally, std::less<>> unmatched;
};

/// Finds which collective kernels of different ranks are the same collective: of the same process
/// group (where none is recorded: of the same place among the streams with collectives), of the
/// same place in the group's order and of the same kind and, but for all-to-all, size. Recordings
/// may begin and end at different collectives: the offset in the order that makes common ends agree
/// best is taken.
///
/// All ranks leave a collective together, to within microseconds. So the median difference of their
/// ends is what their clocks differ by; with the clocks set, a rank waits from its begin until the
/// last one begins, and moves data from then on. Sends and receives end for each pair on its own
/// and are no such mark, nor are they matched in groups of more than two, since the partner is not
/// recorded.
///
/// `kernels`: of each trace, as find_collective_kernels gives them. O(kernels).
[[nodiscard]] CollectiveMatch match_collectives(
    const std::vector<const Trace*>& traces,
    const std::vector<std::vector<CollectiveKernel>>& kernels);

}  // namespace tracecast::traces
