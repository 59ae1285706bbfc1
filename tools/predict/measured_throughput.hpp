#pragma once
#include <cstddef>
#include <string>

#include "sim/job/predictor.hpp"

namespace tracecast {

/// A forecast's throughput after runs of the same job, here or elsewhere, were looked at.
struct MeasuredThroughput {
  Interval predicted, corrected;  ///< samples/s
  std::size_t runs = 0;           ///< that are of the job
  bool is_here = false;           ///< one of them on the same GPUs
};

/// Corrects the forecast by the runs of a table (tools/plan/measured_runs.hpp) that are of its job:
/// each is predicted at its own place in the same way, and errors hang together as
/// sim/plan/purchase/error_model.hpp says. Runs elsewhere take that place's usual machine. Throws
/// InputError: a bad table, a run's place where the job cannot be predicted.
[[nodiscard]] MeasuredThroughput measured_throughput(const std::string& file, const Job& job,
                                                     const Place& place,
                                                     const Parallelism& parallelism,
                                                     const Predictor& predictor,
                                                     const Forecast& forecast);

/// Lines to stand below a forecast's text; and the forecast's JSON with the key "measured".
[[nodiscard]] std::string measured_text(const MeasuredThroughput& measured);
[[nodiscard]] std::string with_measured(const std::string& forecast_json,
                                        const MeasuredThroughput& measured);

}  // namespace tracecast
