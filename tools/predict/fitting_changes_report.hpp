#pragma once
#include <string>
#include <vector>

#include "sim/job/fitting_changes.hpp"

namespace tracecast {

/// Lines to stand below a forecast's text, none where nothing is needed or helps; and the
/// forecast's JSON with the key "would_fit".
[[nodiscard]] std::string fitting_changes_text(const std::vector<FittingChange>& changes);
[[nodiscard]] std::string with_fitting_changes(const std::string& forecast_json,
                                               const std::vector<FittingChange>& changes);

}  // namespace tracecast
