#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"
#include "tools/study/study.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

std::string figure(std::optional<double> value) { return value ? low_precision(*value, 9) : "-"; }

Json json_of(std::optional<double> value) { return value ? Json(*value) : Json(); }

std::string_view verdict(const StudyResult& result) {
  if (!result.predicted) return "no answer";
  return result.agrees ? "yes" : "no";
}

std::string summary(const std::vector<StudyResult>& results) {
  std::size_t judged = 0, fitted = 0, good = 0, good_fitted = 0;
  for (const StudyResult& result : results) {
    const bool is_fitted = result.row->fitted;
    (is_fitted ? fitted : judged) += 1;
    if (result.agrees) (is_fitted ? good_fitted : good) += 1;
  }
  std::string text = fmt::format("{} of {} rows agree", good, judged);
  if (fitted > 0) {
    text += fmt::format("; of {} rows that parameters were fitted to, {} do", fitted, good_fitted);
  }
  return text;
}

}  // namespace

std::string study_text(const Study& study, const std::vector<StudyResult>& results) {
  std::string text = wrap(study.id + ": " + study.title, 80, 2) + '\n';
  text += wrap(study.question, 80, 0) + "\n\n";
  for (const std::string& line : study.setting) text += wrap("- " + line, 80, 2) + '\n';
  text += fmt::format("\n{:<39} {:>9} {:>9} {:<8} {}\n", "row", "published", "predicted", "unit",
                      "agrees");
  for (const StudyResult& result : results) {
    const StudyRow& row = *result.row;
    text += fmt::format("{} {:>9} {:>9} {} {}{}\n", fit(row.id, 39), figure(row.published),
                        figure(result.predicted), fit(row.unit, 8), verdict(result),
                        row.fitted ? " (fit)" : "");
    text += "  " + wrap(fmt::format("{}: {}", row.finding, row.printed), 78, 4) + '\n';
    if (!result.why.empty()) text += "  " + wrap("Ours: " + result.why, 78, 4) + '\n';
  }
  return text + '\n' + wrap(summary(results), 80, 0) + '\n';
}

std::string study_json(const Study& study, const std::vector<StudyResult>& results,
                       const Hardware& hardware) {
  Json doc;
  doc["schema"] = "tracecast.study/" + std::to_string(kSchema);
  doc["version"] = kVersion;
  doc["study"] = study.id;
  doc["title"] = study.title;
  doc["question"] = study.question;
  doc["setting"] = study.setting;
  doc["inputs"] = Json::array();
  for (const InputRecord& input : {study.record, hardware.cost_record()}) {
    doc["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  }
  doc["seed"] = 0;
  doc["rows"] = Json::array();
  for (const StudyResult& result : results) {
    const StudyRow& row = *result.row;
    doc["rows"].push_back({{"row", row.id},
                           {"finding", row.finding},
                           {"printed", row.printed},
                           {"published", row.published ? Json(*row.published) : Json(row.printed)},
                           {"predicted", json_of(result.predicted)},
                           {"unit", row.unit},
                           {"agrees", result.agrees},
                           {"fitted", row.fitted},
                           {"why", result.why}});
  }
  doc["rows_agreeing"] = std::count_if(results.begin(), results.end(),
                                       [](const StudyResult& result) { return result.agrees; });
  return json_text(doc) + '\n';
}

std::string study_csv(const Study& study, const std::vector<StudyResult>& results) {
  std::string text = "study,row,finding,printed,published,predicted,unit,agrees,fitted,why\n";
  const auto number = [](std::optional<double> v) { return v ? fmt::format("{}", *v) : ""; };
  for (const StudyResult& result : results) {
    const StudyRow& row = *result.row;
    text += csv_line(study.id, row.id, row.finding, row.printed, number(row.published),
                     number(result.predicted), row.unit, result.agrees ? "yes" : "no",
                     row.fitted ? "yes" : "no", result.why);
  }
  return text;
}

}  // namespace tracecast
