#pragma once
#include <string>

#include "sim/plan/layout_search.hpp"

namespace tracecast {

/// What `predict --search` answers.
[[nodiscard]] std::string layouts_text(const plan::LayoutSearch& search, const Job& job);
[[nodiscard]] std::string layouts_json(const plan::LayoutSearch& search, const Job& job);
[[nodiscard]] std::string layouts_csv(const plan::LayoutSearch& search);

}  // namespace tracecast
