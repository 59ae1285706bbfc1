#pragma once
#include <string>
#include <vector>

#include "sim/job/forecast.hpp"
#include "sim/job/mode/serving_job.hpp"
#include "sim/store/row.hpp"
#include "tools/serve/serve_report.hpp"

namespace tracecast {

/// Columns of what `predict` answers, and their values in that order, behind what is there.
[[nodiscard]] std::vector<store::Column> prediction_columns();
void append_prediction(const Forecast& forecast, std::vector<store::Value>& values);

/// The same of `serve`. Of what does not fit there is no time.
[[nodiscard]] std::vector<store::Column> serving_columns();
void append_serving(const ServeQuestion& question, const ServingReport& report,
                    std::vector<store::Value>& values);

/// [{"kind", "name", "sha256"}, ...] on one line.
[[nodiscard]] std::string inputs_json(const std::vector<InputRecord>& inputs);

}  // namespace tracecast
