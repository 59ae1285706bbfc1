#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "calibrate/table/error_statistics.hpp"
#include "sim/base/text.hpp"
#include "tools/command/output.hpp"
#include "tools/report/page.hpp"
#include "tools/validate/validation_page.hpp"

namespace tracecast {
namespace {

constexpr RowUse kUses[] = {RowUse::None, RowUse::Choice, RowUse::Fit};

std::string words_of(RowUse use) {
  return use == RowUse::Fit ? "fitted" : use == RowUse::Choice ? "in view" : "untouched";
}

ErrorStatistics statistics_of(const Validation& v,
                              const std::function<bool(const ValidatedRow&)>& is_meant) {
  std::vector<JudgedRow> rows;
  for (const ValidatedRow& row : v.rows) {
    if (!row.is_in_total() || !is_meant(row)) continue;
    rows.push_back({.error = row.error(),
                    .within_interval =
                        row.predicted.low <= row.measured && row.measured <= row.predicted.high});
  }
  return summarize(rows);
}

std::string label_of(const Validation& v, const ValidatedRow& row) {
  std::string text = row.id;
  for (std::size_t c = 0; c < v.group_columns.size(); ++c) {
    if (!row.groups[c].empty()) text += fmt::format(", {} {}", v.group_columns[c], row.groups[c]);
  }
  return text;
}

/// Predicted over measured, one series by what rows were used for.
PageJson scatter_section(const Validation& v) {
  PageJson section = new_section(
      {.id = "scatter",
       .title = "Predicted and measured",
       .kind = "chart",
       .text = "On the dashed line both are the same; whiskers are 90 % intervals.",
       .trust = "Only untouched rows are predictions: nothing was fitted to them or chosen with "
                "them in view."});
  const bool is_log = std::all_of(v.rows.begin(), v.rows.end(), [](const ValidatedRow& row) {
    return !row.is_in_total() || (row.measured > 0 && row.predicted.low > 0);
  });
  double least = std::numeric_limits<double>::max(), most = 0;
  section["series"] = PageJson::array();
  for (const RowUse use : kUses) {
    PageJson x = PageJson::array(), y = x, low = x, high = x, labels = x;
    for (const ValidatedRow& row : v.rows) {
      if (!row.is_in_total() || row.used_for != use) continue;
      x.push_back(row.measured);
      y.push_back(row.predicted.value);
      low.push_back(row.predicted.low);
      high.push_back(row.predicted.high);
      labels.push_back(label_of(v, row));
      least = std::min({least, row.measured, row.predicted.value});
      most = std::max({most, row.measured, row.predicted.value});
    }
    if (x.empty()) continue;
    section["series"].push_back({{"name", words_of(use)},
                                 {"form", "points"},
                                 {"x", std::move(x)},
                                 {"y", std::move(y)},
                                 {"low", std::move(low)},
                                 {"high", std::move(high)},
                                 {"labels", std::move(labels)}});
  }
  section["series"].push_back(
      {{"name", "equal"}, {"form", "reference"}, {"x", {least, most}}, {"y", {least, most}}});
  section["x"] = {{"label", "measured"}, {"unit", v.unit}, {"log", is_log}};
  section["y"] = {{"label", "predicted"}, {"unit", v.unit}, {"log", is_log}};
  section["tall"] = true;
  return section;
}

void push_statistics(PageJson& rows, std::string_view by, std::string_view key,
                     const ErrorStatistics& s) {
  rows.push_back({by, key, s.n, s.mape, s.median_ape, s.p90_ape, s.bias, s.coverage90});
}

PageJson groups_section(const Validation& v) {
  PageJson section = new_section({.id = "groups",
                                  .title = "Errors by group",
                                  .kind = "table",
                                  .text = "Error: (predicted - measured) / measured; of shares "
                                          "their difference. Inside: share of rows in their 90 % "
                                          "interval."});
  section["columns"] = {{{"name", "by"}},
                        {{"name", "key"}},
                        {{"name", "rows"}, {"unit", "count"}},
                        {{"name", "mean error"}, {"unit", "share"}, {"bar", true}},
                        {{"name", "median"}, {"unit", "share"}},
                        {{"name", "nine of ten below"}, {"unit", "share"}},
                        {{"name", "bias"}, {"unit", "share"}},
                        {{"name", "inside"}, {"unit", "share"}}};
  section["rows"] = PageJson::array();
  PageJson& rows = section["rows"];
  push_statistics(rows, "all", "", statistics_of(v, [](const ValidatedRow&) { return true; }));
  for (const RowUse use : kUses) {
    const auto s = statistics_of(v, [use](const ValidatedRow& r) { return r.used_for == use; });
    if (s.n > 0) push_statistics(rows, "used for", words_of(use), s);
  }
  for (std::size_t c = 0; c < v.group_columns.size(); ++c) {
    std::map<std::string, int> keys;
    for (const ValidatedRow& row : v.rows) {
      if (row.is_in_total()) ++keys[row.groups[c]];
    }
    for (const auto& [key, count] : keys) {
      push_statistics(rows, v.group_columns[c], key,
                      statistics_of(v, [&](const ValidatedRow& r) { return r.groups[c] == key; }));
    }
  }
  return section;
}

PageJson rows_section(const Validation& v) {
  PageJson section =
      new_section({.id = "rows",
                   .title = "Every row",
                   .kind = "table",
                   .text = "Rows that could not be predicted stand here with the reason."});
  section["columns"] = {{{"name", "row"}},
                        {{"name", "what"}},
                        {{"name", "measured"}, {"unit", ""}},
                        {{"name", "predicted"}, {"unit", ""}},
                        {{"name", "low"}, {"unit", ""}},
                        {{"name", "high"}, {"unit", ""}},
                        {{"name", "error"}, {"unit", "share"}},
                        {{"name", "basis"}},
                        {{"name", "used for"}},
                        {{"name", "flag, or why skipped"}}};
  section["rows"] = PageJson::array();
  for (const ValidatedRow& row : v.rows) {
    if (!row.skipped.empty()) {
      section["rows"].push_back({row.id, label_of(v, row), nullptr, nullptr, nullptr, nullptr,
                                 nullptr, "", "", row.skipped});
      continue;
    }
    section["rows"].push_back({row.id, label_of(v, row), row.measured, row.predicted.value,
                               row.predicted.low, row.predicted.high, row.error(), row.basis,
                               words_of(row.used_for), row.flag});
  }
  return section;
}

}  // namespace

PageJson validation_page(const Validation& v) {
  const ErrorStatistics all = statistics_of(v, [](const ValidatedRow&) { return true; });
  const auto skipped = std::count_if(v.rows.begin(), v.rows.end(),
                                     [](const ValidatedRow& row) { return !row.skipped.empty(); });
  PageJson page = new_page(
      {.subcommand = "validate",
       .title = v.file,
       .subtitle = fmt::format("{}, in {}. {}", v.table, v.unit, v.convention),
       .report = all.n == 0
                     ? "No row could be predicted."
                     : fmt::format("Predictions are off by {} on average (median {}); {} of {} "
                                   "rows lie in their 90 % interval.",
                                   percent(all.mape), percent(all.median_ape),
                                   percent(all.coverage90), all.n)});
  PageJson& list = page["headline"];
  list.push_back(page_fact("Mean error", all.mape, "share", fmt::format("of {} rows", all.n)));
  for (const RowUse use : kUses) {
    const auto s = statistics_of(v, [use](const ValidatedRow& r) { return r.used_for == use; });
    if (s.n == 0) continue;
    list.push_back(page_fact("Mean error, " + words_of(use), s.mape, "share",
                             fmt::format("{} rows, bias {:+.0f} %, {} inside", s.n, 100 * s.bias,
                                         percent(s.coverage90))));
  }
  list.push_back(page_fact("Skipped", static_cast<double>(skipped), "count", "each with a reason"));
  page["sections"] = PageJson::array();
  if (all.n > 0) {
    page["sections"].push_back(scatter_section(v));
    page["sections"].push_back(groups_section(v));
  }
  page["sections"].push_back(rows_section(v));
  add_inputs(page, v.inputs);
  return page;
}

}  // namespace tracecast
