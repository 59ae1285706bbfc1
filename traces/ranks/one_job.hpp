#pragma once
#include <vector>

#include "traces/trace.hpp"

namespace tracecast::traces {

/// Throws InputError, which names two of the recordings, where they cannot be the ranks of one job.
/// Ranks of a job
/// - were recorded by one profiler, and all of them say their rank or none does,
/// - say the same number of ranks, each a rank of its own below it,
/// - agree how many ranks a process group has,
/// - ran at the same time, to within a minute that clocks of hosts may differ by, where times are
/// absolute,
/// - launch kernels, or draw collectives in a graph, of the same names: half of one's at least,
/// - take part in collectives, or send and receive, where nothing else speaks for one job: ranks,
/// absolute times, files
///   named "rank0", "rank1" or "worker0" ... .
/// One recording is always one job. O(records).
void check_one_job(const std::vector<Trace>& traces);

}  // namespace tracecast::traces
