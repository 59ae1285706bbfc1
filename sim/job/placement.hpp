#pragma once
#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// Finds what `job` runs on, from its options: the GPU, or the CPUs of "cpu:[Nx]ID"; the machine whose CPU's
/// speed its host costs take and whose path from GPU to socket bounds copies of the input. Adds to the job's
/// assumptions what was chosen. Needs job.framework. Throws InputError naming the flag.
void place_job(ResolvedJob& job, const Hardware& hardware);

}  // namespace tracecast
