#pragma once
#include <string>

#include "sim/job/job.hpp"

namespace tracecast {

/// What the host of a recorded program costs (traces/open.hpp: any format that has the host's
/// calls), for jobs of the same program on other GPUs and at other batches:
///   host_us_per_launch = (sum over launches of the time to the next launch, less what the host
///   waited for the GPU in between) / launches
///   waits: in calls that synchronize or copy, and what a launch takes beyond four times the median
///   one, since the queue was full
/// Profilers lengthen the host's work; it is taken as recorded. Throws InputError: what
/// read_recording() refuses, a recording with fewer than ten launches.
void take_recorded_host(const std::string& file, Software& software);

}  // namespace tracecast
