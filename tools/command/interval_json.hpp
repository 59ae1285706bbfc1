#pragma once
#include <nlohmann/json_fwd.hpp>

#include "sim/step/interval.hpp"
#include "sim/step/metrics.hpp"

namespace tracecast {

/// {"value", "low", "high"}: an answer with its interval.
[[nodiscard]] nlohmann::ordered_json interval_json(const Interval& interval);
/// {"min", "avg", "max"}: what was sampled over time.
[[nodiscard]] nlohmann::ordered_json range_json(const Range& range);

}  // namespace tracecast
