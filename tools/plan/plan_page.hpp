#pragma once
#include "tools/plan/plan_report.hpp"

namespace tracecast {

/// The page of a purchase: what it costs and holds, which job runs where and when, what lost, and
/// how sure the choice is. Without a plan: which limit keeps it from being.
void write_plan_page(const PlanReport& report, const std::string& file);

}  // namespace tracecast
