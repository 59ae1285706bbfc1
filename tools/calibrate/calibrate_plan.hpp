#pragma once
#include <string>

#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// What `tracecast calibrate plan` lists.
struct CalibratePlanOptions {
  std::string gpu;  ///< id of its spec; need not be in this machine
  bool quick = false;
  SourceOptions sources;
};

/// Every experiment of the plan for a GPU, with what the cost model expects of it, as CSV:
/// experiment, class, precision, predicted_us, low_us, high_us (90 % interval; empty where the cost
/// model has no kernels for it). Convolution algorithms are those that lowering knows; on a real
/// device its library decides. Returns the exit code. Throws InputError.
int run_plan(const CalibratePlanOptions& options);

}  // namespace tracecast
