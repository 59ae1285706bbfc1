#pragma once
#include <string>
#include <vector>

#include "sim/job/other_sizes.hpp"

namespace tracecast {

/// Lines to stand below a forecast's text, none where there is no better size; and the forecast's
/// JSON with the key "other_sizes".
[[nodiscard]] std::string other_sizes_text(const std::vector<OtherSize>& sizes,
                                           const Forecast& forecast);
[[nodiscard]] std::string with_other_sizes(const std::string& forecast_json,
                                           const std::vector<OtherSize>& sizes);

}  // namespace tracecast
