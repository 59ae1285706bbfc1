#pragma once
#include "sim/job/hardware.hpp"
#include "sim/job/predictor.hpp"
#include "sim/plan/purchase/job_list.hpp"

namespace tracecast::plan {

/// What one replica on a gang of GPUs bears: `samples_per_s` are requests/s whose 90th percentiles
/// stay within the demand's limits, the interval from steps that all take as much more or less as
/// the answer's spread says. Tensor parallel over the gang, at most 8 ranks, what is left replicas
/// of their own. Not refused but without a rate where no load meets the limits: `refused` says so.
[[nodiscard]] Cell served_cell(const Job& job, const ServingDemand& demand, const Place& place,
                               const Hardware& hardware);

}  // namespace tracecast::plan
