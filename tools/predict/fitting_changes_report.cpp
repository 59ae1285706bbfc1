#include "tools/predict/fitting_changes_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/step/memory/fit.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"

namespace tracecast {

std::string fitting_changes_text(const std::vector<FittingChange>& changes) {
  std::string page;
  if (!changes.empty()) page += '\n';
  for (const FittingChange& change : changes) {
    add_line(page, &change == &changes.front() ? "Would fit" : "",
             fmt::format("with {}: {} GiB, {}, {} times the speed{}", change.flags,
                         three_digits(change.needed.in_gib()), fit_words(change.probability),
                         three_digits(change.throughput),
                         change.changes_results ? "; it changes what is computed" : ""));
  }
  return page;
}

std::string with_fitting_changes(const std::string& forecast_json,
                                 const std::vector<FittingChange>& changes) {
  auto doc = nlohmann::ordered_json::parse(forecast_json);
  doc["would_fit"] = nlohmann::ordered_json::array();
  for (const FittingChange& change : changes) {
    doc["would_fit"].push_back({{"flags", change.flags},
                                {"needed_bytes", change.needed.in_bytes()},
                                {"fit_probability", change.probability},
                                {"throughput_ratio", change.throughput},
                                {"changes_results", change.changes_results}});
  }
  return json_text(doc) + "\n";
}

}  // namespace tracecast
