#pragma once
#include "sim/job/hardware.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// Adds a warning to `job`, once, where `own` runs slower algorithms since memory is too full for
/// the fastest ones, and that costs 1 % of the step and more. `prediction`: of `own`, alone on one
/// GPU.
void warn_of_shortage(const ResolvedJob& own, const Prediction& prediction,
                      const Hardware& hardware, ResolvedJob& job);

}  // namespace tracecast
