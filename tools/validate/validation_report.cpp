#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "calibrate/table/error_statistics.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

JudgedRow judge(const ValidatedRow& row) {
  const auto error_of = [&](const std::optional<double>& roofline) {
    return roofline ? std::optional(*roofline / row.measured - 1) : std::nullopt;
  };
  return {
      .error = row.error(),
      .within_interval = row.predicted.low <= row.measured && row.measured <= row.predicted.high,
      .plain_error = error_of(row.plain_roofline),
      .three_error = error_of(row.three_roofline)};
}

struct Group {
  std::string by, key;
  ErrorStatistics statistics;
};

constexpr std::string_view kByUse = "used_for";

/// Rows by what they were used for before: fitted, in view when something was chosen, untouched.
/// Those that are there.
std::vector<Group> group_by_use(const Validation& validation) {
  std::vector<Group> groups;
  for (const RowUse use : {RowUse::Fit, RowUse::Choice, RowUse::None}) {
    std::vector<JudgedRow> rows;
    for (const ValidatedRow& row : validation.rows) {
      if (row.is_in_total() && row.used_for == use) rows.push_back(judge(row));
    }
    if (!rows.empty())
      groups.push_back({std::string(kByUse), std::string(to_string(use)), summarize(rows)});
  }
  return groups;
}

/// By use; then one group per value of every group column that tells rows apart; in the order of
/// the columns, keys sorted.
std::vector<Group> group(const Validation& validation) {
  std::vector<Group> groups = group_by_use(validation);
  for (std::size_t c = 0; c < validation.group_columns.size(); ++c) {
    std::map<std::string, std::vector<JudgedRow>> by_key;
    for (const ValidatedRow& row : validation.rows) {
      if (row.is_in_total()) by_key[row.groups[c]].push_back(judge(row));
    }
    for (const auto& [key, rows] : by_key) {
      groups.push_back({validation.group_columns[c], key, summarize(rows)});
    }
  }
  return groups;
}

ErrorStatistics total(const Validation& validation) {
  std::vector<JudgedRow> rows;
  for (const ValidatedRow& row : validation.rows) {
    if (row.is_in_total()) rows.push_back(judge(row));
  }
  return summarize(rows);
}

/// Rows that were predicted and are in no sum, by flag.
std::map<std::string, ErrorStatistics> flagged(const Validation& validation) {
  std::map<std::string, std::vector<JudgedRow>> rows;
  for (const ValidatedRow& row : validation.rows) {
    if (row.skipped.empty() && !row.is_in_total()) rows[row.flag].push_back(judge(row));
  }
  std::map<std::string, ErrorStatistics> statistics;
  for (const auto& [flag, judged] : rows) statistics[flag] = summarize(judged);
  return statistics;
}

/// Groups of the column `data` (synthetic, real) when it tells rows apart: what the headline is
/// made of.
std::vector<Group> by_data(const std::vector<Group>& groups) {
  std::vector<Group> parts;
  for (const Group& g : groups) {
    if (g.by == "data") parts.push_back(g);
  }
  if (parts.size() < 2) parts.clear();
  return parts;
}

/// Reasons with their counts, the most frequent first.
std::vector<std::pair<std::string, std::size_t>> skipped(const Validation& validation,
                                                         bool malformed = true) {
  std::map<std::string, std::size_t> counts;
  for (const ValidatedRow& row : validation.rows) {
    if (!row.skipped.empty() && (malformed || !row.malformed)) ++counts[row.skipped];
  }
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

/// Rows that their boards cannot have measured as the table describes them, by reason.
std::map<std::string, ErrorStatistics> out_of_reach(const Validation& validation) {
  std::map<std::string, std::vector<JudgedRow>> rows;
  for (const ValidatedRow& row : validation.rows) {
    if (row.skipped.empty() && !row.out_of_reach.empty())
      rows[row.out_of_reach].push_back(judge(row));
  }
  std::map<std::string, ErrorStatistics> statistics;
  for (const auto& [reason, judged] : rows) statistics[reason] = summarize(judged);
  return statistics;
}

/// What the figures of rows that were used for something are worth; empty where none was.
std::string used_text(const Validation& v) {
  std::size_t fit = 0, choice = 0, none = 0, interval = 0;
  for (const ValidatedRow& row : v.rows) {
    if (!row.is_in_total()) continue;
    fit += row.used_for == RowUse::Fit;
    choice += row.used_for == RowUse::Choice;
    none += row.used_for == RowUse::None;
    interval += row.interval_used_for == RowUse::Fit && row.used_for != RowUse::Fit;
  }
  if (fit + choice == 0) return "";
  std::string text = fmt::format(
      "Of these rows {} were fitted, {} were in view when something was chosen, {} are untouched "
      "(used_for): only untouched rows are predictions.",
      fit, choice, none);
  if (interval > 0)
    text += fmt::format(" {} more set the width of intervals: their share inside is the fit's.",
                        interval);
  return wrap(text, 79, 0) + "\n";
}

/// Rows that the profile was fitted to.
std::size_t num_fitted(const Validation& validation) {
  return static_cast<std::size_t>(std::count_if(
      validation.rows.begin(), validation.rows.end(),
      [](const ValidatedRow& row) { return row.is_in_total() && row.basis == kFittedBasis; }));
}

std::size_t num_skipped(const Validation& validation) {
  return static_cast<std::size_t>(
      std::count_if(validation.rows.begin(), validation.rows.end(),
                    [](const ValidatedRow& row) { return !row.skipped.empty(); }));
}

std::string in_percent(double fraction) { return fmt::format("{:.1f}", fraction * 100); }

std::string statistics_line(std::string_view by, std::string_view key, const ErrorStatistics& s) {
  std::string text =
      fmt::format("{} {} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7}", fit(by, 10), fit(key, 20, 11), s.n,
                  in_percent(s.mape), in_percent(s.median_ape), in_percent(s.p90_ape),
                  in_percent(s.bias), in_percent(s.coverage90));
  if (s.plain_mape && s.three_mape)
    text += fmt::format(" {:>7} {:>7}", in_percent(*s.plain_mape), in_percent(*s.three_mape));
  return text + "\n";
}

std::string error_table(const Validation& v, const ErrorStatistics& all) {
  std::string text = fmt::format("{} {} {:>6} {:>7} {:>7} {:>7} {:>7} {:>7}", fit("errors, %", 10),
                                 fit("", 20), "rows", "mean", "median", "p90", "bias", "in 90%");
  // Mean errors of two rooflines: greater of arithmetic and compulsory bytes; the same at 0.75 and
  // 0.8, 3 us more.
  if (all.plain_mape) text += fmt::format(" {:>7} {:>7}", "roof", "roof+3");
  text += "\n";
  text += statistics_line("all", "", all);
  const std::vector<Group> groups = group(v);
  const bool mixes_data = !by_data(groups).empty();
  const bool is_untouched = groups.empty() || groups.front().key == to_string(RowUse::None);
  for (const Group& g : by_data(groups)) text += statistics_line(g.by, g.key, g.statistics);
  for (const Group& g : groups) {
    if (is_untouched && g.by == kByUse) continue;  // a table that nothing here has seen
    if (!mixes_data || g.by != "data") text += statistics_line(g.by, g.key, g.statistics);
  }
  return text;
}

/// Why rows were skipped, with their counts; of malformed ones, which say where, the first in the
/// file.
std::string skipped_text(const Validation& v) {
  constexpr std::size_t kMostMalformed = 10, kMostReasons = 50;
  std::string text;
  std::size_t shown = 0, rest = 0;
  for (const auto& [reason, n] : skipped(v, /*malformed=*/false)) {
    if (++shown > kMostReasons) {
      rest += n;
    } else {
      text += fmt::format("{:>7}  {}\n", n, wrap(reason, 71, 9));
    }
  }
  if (rest > 0) text += fmt::format("{:>7}  for other reasons: --format csv\n", rest);
  shown = 0;
  std::size_t malformed = 0;
  for (const ValidatedRow& row : v.rows) malformed += row.malformed;
  if (malformed > 0) text += fmt::format("{:>7}  malformed:\n", malformed);
  for (const ValidatedRow& row : v.rows) {
    if (!row.malformed) continue;
    if (++shown > kMostMalformed) {
      text += fmt::format("           and {} more: --format csv lists them\n",
                          malformed - kMostMalformed);
      break;
    }
    text += fmt::format("           {}\n", wrap(row.skipped, 69, 13));
  }
  return text;
}

/// Keys without values where no row was judged: there is no mean of nothing.
Json to_json(const ErrorStatistics& s) {
  if (s.n == 0) {
    return {{"mape", nullptr},
            {"median_ape", nullptr},
            {"p90_ape", nullptr},
            {"bias", nullptr},
            {"coverage90", nullptr}};
  }
  Json json{{"mape", s.mape},
            {"median_ape", s.median_ape},
            {"p90_ape", s.p90_ape},
            {"bias", s.bias},
            {"coverage90", s.coverage90}};
  if (s.plain_mape && s.three_mape) {
    json["plain_roofline_mape"] = *s.plain_mape;
    json["three_constant_roofline_mape"] = *s.three_mape;
  }
  return json;
}

}  // namespace

bool is_judged(const Validation& validation) {
  return std::any_of(validation.rows.begin(), validation.rows.end(),
                     [](const ValidatedRow& row) { return row.skipped.empty(); });
}

std::string validation_text(const Validation& v) {
  std::string text = wrap(fmt::format("{}: {}, unit {}", v.file, v.table, v.unit), 80, 0) + '\n';
  if (!v.convention.empty()) text += wrap(v.convention, 80, 0) + '\n';
  text += '\n';
  const ErrorStatistics all = total(v);
  if (all.n > 0) text += error_table(v, all);

  std::vector<const ValidatedRow*> worst;
  for (const ValidatedRow& row : v.rows) {
    if (row.is_in_total()) worst.push_back(&row);
  }
  const std::size_t count = std::min<std::size_t>(worst.size(), 5);
  std::partial_sort(worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(count), worst.end(),
                    [](const ValidatedRow* a, const ValidatedRow* b) {
                      return std::abs(std::log(a->predicted.value / a->measured)) >
                             std::abs(std::log(b->predicted.value / b->measured));
                    });
  if (count > 0)
    text += fmt::format("\nworst {}{:>10} {:>10} {:>8}\n", fit("", 44), "measured", "predicted",
                        "error");
  for (std::size_t i = 0; i < count; ++i) {
    const ValidatedRow& row = *worst[i];
    std::string what = row.id;
    for (const std::string& value : row.groups) {
      if (!value.empty()) what += ' ' + value;
    }
    text += fmt::format("{}{:>10} {:>10} {:>6} %\n", fit(what, 50), three_digits(row.measured),
                        three_digits(row.predicted.value), in_percent(row.error()));
  }

  text += all.n == 0 ? fmt::format("No row could be predicted: {} skipped\n", num_skipped(v))
                     : fmt::format("\n{} rows judged, {} skipped\n", all.n, num_skipped(v));
  if (const std::size_t fitted = num_fitted(v); fitted > 0) {
    text +=
        wrap(fmt::format("{} of them are of GPUs and sources that the profile was fitted to: their "
                         "errors are the fit's, no predictions. For those, leave a GPU out: "
                         "tracecast calibrate check.",
                         fitted),
             79, 0) +
        "\n";
  }
  if (all.n > 0) text += used_text(v);
  text += skipped_text(v);
  const auto apart = flagged(v);
  if (!apart.empty()) text += "\nFlagged, and not in the figures above:\n";
  for (const auto& [flag, f] : apart) {
    text += fmt::format("{:>7}  {}; errors: bias {} %, mean {} %\n", f.n, flag, in_percent(f.bias),
                        in_percent(f.mape));
  }
  const auto unreachable = out_of_reach(v);
  if (!unreachable.empty())
    text += "\nOut of the board's reach as the table describes them, and judged all the same:\n";
  for (const auto& [reason, s] : unreachable) {
    text += fmt::format("{:>7}  {}\n", s.n,
                        wrap(fmt::format("{}; errors: bias {} %, mean {} %", reason,
                                         in_percent(s.bias), in_percent(s.mape)),
                             71, 9));
  }
  return text;
}

std::string validation_json(const Validation& v) {
  Json head;
  head["schema"] = "tracecast.validate/" + std::to_string(kSchema);
  head["version"] = kVersion;
  head["inputs"] = Json::array();
  for (const InputRecord& input : v.inputs) {
    head["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  }
  head["seed"] = 0;  // nothing is drawn at random
  head["table"] = v.table;
  head["unit"] = v.unit;
  head["convention"] = v.convention;
  head["only"] = v.selection;
  // Rows go out one by one: a document of 100,000 rows as one tree would take hundreds of
  // megabytes.
  std::string text = json_text(head);
  text.erase(text.size() - 2);  // "\n}"
  text += ",\n  \"rows\": [";
  bool first = true;
  for (const ValidatedRow& row : v.rows) {
    Json entry{{"id", row.id}};
    if (row.skipped.empty()) {
      entry.update({{"measured", row.measured},
                    {"predicted", row.predicted.value},
                    {"low", row.predicted.low},
                    {"high", row.predicted.high},
                    {"error", row.error()},
                    {"basis", row.basis},
                    {"skipped", nullptr}});
      if (!row.out_of_reach.empty()) entry["out_of_reach"] = row.out_of_reach;
    } else {
      entry.update({{"measured", row.measured > 0 ? Json(row.measured) : Json()},
                    {"predicted", nullptr},
                    {"low", nullptr},
                    {"high", nullptr},
                    {"error", nullptr},
                    {"basis", nullptr},
                    {"skipped", row.skipped}});
    }
    entry.update(
        {{"line", row.line},
         {"metric", row.metric},
         {"unit", v.unit},
         {"flag", row.flag.empty() ? Json() : Json(row.flag)},
         {"used_for", row.used_for == RowUse::None ? Json() : Json(to_string(row.used_for))}});
    text += first ? "\n    " : ",\n    ";
    text += json_text(entry, -1);
    first = false;
  }
  text += "\n  ],\n  \"groups\": ";
  Json groups = Json::array();
  const std::vector<Group> all_groups = group(v);
  for (const Group& g : all_groups) {
    Json entry{{"by", g.by}, {"key", g.key}, {"n", g.statistics.n}};
    entry.update(to_json(g.statistics));
    groups.push_back(std::move(entry));
  }
  text += json_text(groups, -1) + ",\n  \"total\": ";
  const ErrorStatistics all = total(v);
  Json sum{{"n", all.n}, {"skipped", num_skipped(v)}, {"fitted", num_fitted(v)}};
  sum.update(to_json(all));
  sum["by_used_for"] = Json::object();
  for (const Group& g : group_by_use(v)) {
    Json part{{"n", g.statistics.n}};
    part.update(to_json(g.statistics));
    sum["by_used_for"][g.key] = std::move(part);
  }
  for (const Group& g : by_data(all_groups)) {
    Json part{{"n", g.statistics.n}};
    part.update(to_json(g.statistics));
    sum["by_data"][g.key] = std::move(part);
  }
  for (const auto& [flag, f] : flagged(v)) {
    Json part{{"n", f.n}};
    part.update(to_json(f));
    sum["flagged"][flag] = std::move(part);
  }
  sum["out_of_reach"] = Json::array();
  for (const auto& [reason, s] : out_of_reach(v)) {
    Json part{{"reason", reason}, {"n", s.n}};
    part.update(to_json(s));
    sum["out_of_reach"].push_back(std::move(part));
  }
  text += json_text(sum, -1) + ",\n  \"skipped_reasons\": ";
  Json reasons = Json::array();
  for (const auto& [reason, n] : skipped(v)) reasons.push_back({{"reason", reason}, {"n", n}});
  return text + json_text(reasons, -1) + "\n}\n";
}

std::string validation_csv(const Validation& v) {
  std::string text = fmt::format(
      "id,measured_{0},predicted_{0},low_{0},high_{0},error,basis,skipped,line,metric,unit,flag,"
      "used_for\n",
      v.unit);
  using Figure = std::optional<double>;
  for (const ValidatedRow& row : v.rows) {
    const bool known = row.skipped.empty();
    const auto figure = [&](double value) { return known ? Figure(value) : Figure(); };
    text += csv_line(row.id, known || row.measured > 0 ? Figure(row.measured) : Figure(),
                     figure(row.predicted.value), figure(row.predicted.low),
                     figure(row.predicted.high), known ? Figure(row.error()) : Figure(),
                     known ? row.basis : "", row.skipped, row.line, row.metric, v.unit, row.flag,
                     row.used_for == RowUse::None ? std::string_view() : to_string(row.used_for));
  }
  return text;
}

std::string_view main_basis(const Prediction& prediction) {
  const auto main =
      std::max_element(prediction.by_basis.begin(), prediction.by_basis.end(),
                       [](const TimeShare& a, const TimeShare& b) { return a.time < b.time; });
  return main == prediction.by_basis.end() ? "unknown" : main->name;
}

}  // namespace tracecast
