#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/text.hpp"
#include "tools/report/page.hpp"
#include "tools/study/study_page.hpp"

namespace tracecast {
namespace {

struct Count {
  std::size_t all = 0, agreeing = 0;
};

std::string verdict(const StudyResult& result) {
  const std::string fitted = result.row->fitted ? ", fitted" : "";
  if (!result.predicted) return "no answer" + fitted;
  return (result.agrees ? "agrees" : "does not agree") + fitted;
}

PageJson number(std::optional<double> value) { return value ? PageJson(*value) : PageJson(); }

PageJson rows_section(const std::vector<StudyResult>& results) {
  PageJson section = new_section(
      {.id = "rows",
       .title = "Row by row",
       .kind = "table",
       .text = "What was published, what we predict, whether the row's own test passes, and why.",
       .trust = "Rows marked fitted set a parameter: they test the fit and predict nothing."});
  section["columns"] = {{{"name", "row"}},
                        {{"name", "verdict"}},
                        {{"name", "published"}, {"unit", ""}},
                        {{"name", "predicted"}, {"unit", ""}},
                        {{"name", "unit"}},
                        {{"name", "finding, as printed"}},
                        {{"name", "ours, and why"}}};
  section["rows"] = PageJson::array();
  for (const StudyResult& result : results) {
    const StudyRow& row = *result.row;
    section["rows"].push_back({row.id, verdict(result), number(row.published),
                               number(result.predicted), row.unit, row.finding + ": " + row.printed,
                               result.why});
  }
  return section;
}

/// Published against predicted, one chart for all rows with both: of each the ratio, since units
/// differ.
PageJson ratios_section(const std::vector<StudyResult>& results) {
  PageJson section = new_section(
      {.id = "ratios",
       .title = "Predicted over published",
       .kind = "chart",
       .text = "1 is the published figure. Rows without a number, or with a published zero, are in "
               "the table alone."});
  PageJson names = PageJson::array();
  std::map<std::string, PageJson> series;
  for (const StudyResult& result : results) {
    const StudyRow& row = *result.row;
    if (!row.published || !result.predicted || *row.published == 0) continue;
    const std::string name = verdict(result);
    PageJson& one = series[name];
    if (one.is_null()) {
      one = {{"name", name},
             {"form", "points"},
             {"x", PageJson::array()},
             {"y", PageJson::array()},
             {"labels", PageJson::array()}};
    }
    one["x"].push_back(names.size());
    one["y"].push_back(*result.predicted / *row.published);
    one["labels"].push_back(fmt::format("{}: {} published, {} predicted, {}", row.id,
                                        three_digits(*row.published),
                                        three_digits(*result.predicted), row.unit));
    names.push_back(row.id);
  }
  const std::size_t last = names.empty() ? 0 : names.size() - 1;
  section["x"] = {{"label", "row"}, {"unit", ""}, {"names", std::move(names)}};
  section["y"] = {{"label", "predicted / published"}, {"unit", ""}, {"min", 0}};
  section["series"] = PageJson::array();
  for (auto& [name, one] : series) section["series"].push_back(std::move(one));
  section["series"].push_back(
      {{"name", "published"}, {"form", "reference"}, {"x", {0, last}}, {"y", {1, 1}}});
  return section;
}

PageJson setting_section(const Study& study) {
  PageJson section =
      new_section({.id = "setting", .title = "What was measured how", .kind = "facts"});
  section["facts"] = PageJson::array();
  for (std::size_t i = 0; i < study.setting.size(); ++i) {
    section["facts"].push_back(page_words(fmt::format("{}", i + 1), study.setting[i]));
  }
  return section;
}

}  // namespace

PageJson study_page(const Study& study, const std::vector<StudyResult>& results,
                    const Hardware& hardware) {
  Count judged, fitted;
  for (const StudyResult& result : results) {
    Count& count = result.row->fitted ? fitted : judged;
    ++count.all;
    if (result.agrees) ++count.agreeing;
  }
  std::string report =
      fmt::format("{} of {} rows agree with what was published.", judged.agreeing, judged.all);
  if (fitted.all > 0) {
    report += fmt::format(" Of {} more, which parameters were fitted to, {} do.", fitted.all,
                          fitted.agreeing);
  }
  PageJson page = new_page(
      {.subcommand = "study", .title = study.title, .subtitle = study.question, .report = report});
  page["headline"] = {page_words("Rows that agree",
                                 fmt::format("{} of {}", judged.agreeing, judged.all),
                                 "that nothing was fitted to")};
  if (fitted.all > 0) {
    page["headline"].push_back(page_words("Fitted rows that agree",
                                          fmt::format("{} of {}", fitted.agreeing, fitted.all),
                                          "they test the fit"));
  }
  page["sections"] = {ratios_section(results), rows_section(results), setting_section(study)};
  const InputRecord inputs[] = {study.record, hardware.cost_record()};
  add_inputs(page, inputs);
  return page;
}

}  // namespace tracecast
