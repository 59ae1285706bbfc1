#include "sim/replay/replay_ranks.hpp"

namespace tracecast {

RanksRun run_ranks(const RanksProgram& job, const ReplayOptions& options) {
  RanksRun result{replay(job.program, options), {}, {}};
  std::vector<std::uint32_t> first_tracks;
  for (const ReplayRank& rank : job.ranks) first_tracks.push_back(rank.first_track);
  result.path = critical_path(job.program, result.run, first_tracks);
  engine::Schedule& schedule = result.run.schedule;
  for (const ReplayCollective& collective : job.collectives) {
    for (const ReplayCollective::Part& part : collective.parts) {
      if (part.arrival != ReplayCollective::kNoTask)
        schedule.start[part.kernel] = schedule.end[part.arrival];
    }
  }
  result.kernel_busy = kernel_busy_by_rank(job.program, schedule, first_tracks);
  return result;
}

}  // namespace tracecast
