#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/study/study.hpp"

namespace tracecast {

/// The study as a page (tools/report/page.hpp): published beside predicted, which rows agree, and
/// why.
[[nodiscard]] nlohmann::ordered_json study_page(const Study& study,
                                                const std::vector<StudyResult>& results,
                                                const Hardware& hardware);

}  // namespace tracecast
