#pragma once
#include <vector>

#include "sim/job/resolved_job.hpp"
#include "sim/step/memory/memory.hpp"
#include "sim/step/prediction.hpp"

namespace tracecast {

/// What lives in device memory while an op of a step runs.
struct MemoryMoment {
  Seconds begin{};  ///< of its first kernel, from the step's begin; ops without kernels: of the one
                    ///< before
  OpId op;
  MemoryByClass live;  ///< `pool` and `context` are zero: they do not change within a step
};

/// A quantity averaged over windows that follow each other from the step's begin on.
struct SampledCurve {
  Seconds window{};
  std::vector<double> values;
};

/// How a step of one GPU goes over time.
struct StepCurves {
  std::vector<MemoryMoment> memory;  ///< op by op
  SampledCurve
      busy;  ///< as nvidia-smi samples it: share of each window with a kernel, steps without end
  SampledCurve power_w;       ///< of the board, as the driver averages it, steps without end
  SampledCurve busy_in_step;  ///< the same of fine windows within one step
  SampledCurve power_in_step_w;
};

/// Of a job and its prediction. Without a GPU there is memory alone; of several micro-batches that
/// share an update only the last one's memory is reported. Pure.
[[nodiscard]] StepCurves step_curves(const ResolvedJob& job, const Prediction& prediction);

}  // namespace tracecast
