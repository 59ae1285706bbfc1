#pragma once
#include <nlohmann/json.hpp>

#include "tools/validate/validation.hpp"

namespace tracecast {

/// The table as a page (tools/report/page.hpp): error scatter, errors by group, every row.
[[nodiscard]] nlohmann::ordered_json validation_page(const Validation& validation);

}  // namespace tracecast
