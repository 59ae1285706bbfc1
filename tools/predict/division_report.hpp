#pragma once
#include <string>

#include "sim/plan/division_search.hpp"

namespace tracecast {

/// What `predict --search` answers.
[[nodiscard]] std::string divisions_text(const plan::DivisionSearch& search, const Job& job);
[[nodiscard]] std::string divisions_json(const plan::DivisionSearch& search, const Job& job);
[[nodiscard]] std::string divisions_csv(const plan::DivisionSearch& search);

}  // namespace tracecast
