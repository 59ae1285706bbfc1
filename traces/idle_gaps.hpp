#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "traces/classify.hpp"
#include "traces/intervals.hpp"
#include "traces/tally.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Why no kernel, copy or memset ran.
enum class IdleCause : std::uint8_t {
  Launch,         ///< the host was late: it was dispatching operators and launching
  Input,          ///< the host was late: it waited for the data loader
  Sync,           ///< the host was late: it had been waiting for the GPU to finish
  Communication,  ///< the host was late: it was in a collective's call
  Queue,          ///< the next work had been launched: a dependency, or the GPU's own start-up
  Unrecorded,     ///< the host was late, and what it did was not recorded
  Unknown,        ///< the launch of the next work was not recorded
};
inline constexpr std::size_t kIdleCauseCount = 7;
[[nodiscard]] std::string_view to_string(IdleCause cause);

using IdleTimes = std::array<Tally, kIdleCauseCount>;

/// The gaps (counted and summed) between stretches of GPU work, each charged in whole to one cause.
///   late = from the gap's begin to the begin of the call that launched the work which ends the gap
/// late <= 0: Queue. Else the host was late. Input: at least half of `late` was data loading. Sync:
/// the host was within a call that waits for the GPU as the gap began. Communication: at least half
/// of `late` was a collective's call. Launch: operators or calls are recorded for at least half of
/// it. Otherwise Unrecorded. A rule of thumb: a gap with two causes goes to the first of these.
[[nodiscard]] IdleTimes idle_times(const Trace& trace, const LaunchIndex& launches,
                                   const Intervals& gpu_work);

}  // namespace tracecast::traces
