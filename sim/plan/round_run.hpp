#pragma once
#include "sim/plan/schedule.hpp"
#include "sim/plan/sharing.hpp"

namespace tracecast::plan {

/// A run in rounds of Rules::round (or shares_round): at the start of each, jobs are given GPUs by
/// how far they lag behind their shares. Per GPU type, whoever has the largest share / (time
/// received / time received by all) first, then by the deficit of earlier periods, then by the
/// share itself; a job that does not fit is passed over; one GPU type at a time. A period ends when
/// shares are divided anew: when jobs came or went, and no earlier than the rules allow; time
/// received then starts at half a round for everybody. Source: Narayanan et al., OSDI 2020, section
/// 5, and Gavel's scheduler.py.
[[nodiscard]] Schedule run_by_rounds(const JobMix& mix, const Fleet& fleet, const Rules& rules,
                                     Sharing& sharing, Placement placement,
                                     const ScheduleOptions& options);

}  // namespace tracecast::plan
