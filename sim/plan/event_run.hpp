#pragma once
#include "sim/plan/ranking.hpp"
#include "sim/plan/schedule.hpp"

namespace tracecast::plan {

/// A run in which a ranking policy decides at every arrival, completion and failure, and when its
/// own order changes.
[[nodiscard]] Schedule run_by_events(const JobMix& mix, const Fleet& fleet, const Rules& rules,
                                     Ranking& ranking, Placement placement,
                                     const ScheduleOptions& options);

}  // namespace tracecast::plan
