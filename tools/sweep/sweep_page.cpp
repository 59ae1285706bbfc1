#include "tools/sweep/sweep_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/text.hpp"
#include "sim/store/query.hpp"
#include "tools/report/page.hpp"
#include "tools/sweep/result_row.hpp"

namespace tracecast {
namespace {

using store::Value;

constexpr std::int64_t kMostShown = 5000;
constexpr std::size_t kMostLines = 12;  ///< of a chart; more are points

/// A figure of an answer: its column in the file, and what turns it into `unit`.
struct Figure {
  const char* label;
  const char* unit;
  const char* column;
  double factor = 1;
  const char* low = nullptr;  ///< columns of its interval
  const char* high = nullptr;
};

/// Figures of a subcommand; the first is the one that charts show.
std::vector<Figure> figures_of(SweepSubcommand subcommand) {
  if (subcommand == SweepSubcommand::Predict)
    return {{"throughput", "samples/s", "throughput_samples_per_s", 1,
             "throughput_low_samples_per_s", "throughput_high_samples_per_s"},
            {"step", "s", "step_time_s"},
            {"memory needed", "B", "memory_needed_bytes"},
            {"boards", "W", "board_power_total_w"},
            {"energy of a sample", "J", "energy_j_per_sample"}};
  return {{"time per token", "s", "tpot_mean_ms", 1e-3, "tpot_mean_low_ms", "tpot_mean_high_ms"},
          {"to the first token", "s", "ttft_mean_ms", 1e-3},
          {"of a GPU", "tokens/s", "tokens_per_s_per_gpu"},
          {"of a user", "tokens/s", "tokens_per_s_per_user"},
          {"million tokens", "USD", "cost_usd_per_million_tokens"}};
}

std::optional<double> value_number(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

PageJson value_json(const Value& value) {
  if (const auto number = value_number(value)) return *number;
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? PageJson(*text) : PageJson();
}

PageJson cell_json(const std::optional<double>& number) {
  return number ? PageJson(*number) : PageJson();
}

/// One answered point: what was asked in the columns that differ, then what came out.
struct Report {
  std::vector<Value> asked;
  std::string status, refused;
  std::vector<std::optional<double>> figures;  ///< of figures_of, in their units
  std::optional<double> low, high;             ///< of the first
};

/// The answers of a subcommand.
struct SubcommandReports {
  SweepSubcommand subcommand{};
  std::vector<std::string> names;  ///< of the columns that differ
  std::vector<Report> reports;
};

struct AskedPoints {
  std::vector<std::string> questions;
  std::vector<std::vector<Value>> asked;
};

AskedPoints points_of(const SweepGrid& grid, SweepSubcommand subcommand) {
  AskedPoints points;
  std::set<std::string> seen;
  const std::int64_t most = std::min(grid.size(), kMostShown);
  for (std::int64_t index = 0; index < most; ++index) {
    SweepPoint point = grid.at(index);
    if (point.subcommand != subcommand || !seen.insert(point.question).second) continue;
    points.questions.push_back(std::move(point.question));
    points.asked.push_back(std::move(point.asked));
  }
  return points;
}

/// Columns in which two points differ; the network alone where none does.
std::vector<std::size_t> columns_that_differ(const std::vector<std::vector<Value>>& asked) {
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; !asked.empty() && c < asked.front().size(); ++c) {
    if (std::any_of(asked.begin(), asked.end(),
                    [&](const auto& row) { return row[c] != asked.front()[c]; }))
      columns.push_back(c);
  }
  for (std::size_t c = 0; columns.empty() && !asked.empty() && c < asked.front().size(); ++c) {
    if (!value_text(asked.front()[c]).empty()) columns.push_back(c);
  }
  return columns;
}

SubcommandReports reports_of(const SweepGrid& grid, SweepSubcommand subcommand,
                             const std::string& results) {
  SubcommandReports all{.subcommand = subcommand, .names = {}, .reports = {}};
  const AskedPoints points = points_of(grid, subcommand);
  if (points.questions.empty()) return all;
  const std::vector<store::Column> columns = asked_columns(subcommand);
  const std::vector<std::size_t> differ = columns_that_differ(points.asked);
  for (const std::size_t c : differ) all.names.push_back(columns[c].name);
  const std::vector<Figure> figures = figures_of(subcommand);
  std::string sql = "SELECT question_sha256, status, refused";
  for (const Figure& figure : figures) sql += fmt::format(", {}", figure.column);
  sql += fmt::format(", {}, {} FROM {}", figures.front().low, figures.front().high,
                     sweep_tables()[static_cast<std::size_t>(subcommand)].name);
  std::unordered_map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < points.questions.size(); ++i) place[points.questions[i]] = i;
  std::map<std::size_t, Report> found;
  store::query(
      results, sql, {.rows = static_cast<std::uint64_t>(SweepGrid::kMostPoints), .seconds = 600},
      [](const std::vector<std::string>&) {},
      [&](const std::vector<Value>& row) {
        const auto at = place.find(value_text(row[0]));
        if (at == place.end()) return;
        Report& report = found[at->second];
        for (const std::size_t c : differ) report.asked.push_back(points.asked[at->second][c]);
        report.status = value_text(row[1]);
        report.refused = value_text(row[2]);
        const auto scaled = [&](std::size_t column, double factor) {
          const auto number = value_number(row[column]);
          return number ? std::optional(*number * factor) : std::nullopt;
        };
        for (std::size_t f = 0; f < figures.size(); ++f)
          report.figures.push_back(scaled(3 + f, figures[f].factor));
        report.low = scaled(3 + figures.size(), figures.front().factor);
        report.high = scaled(4 + figures.size(), figures.front().factor);
      });
  for (auto& [index, report] : found) all.reports.push_back(std::move(report));
  return all;
}

std::size_t values_of(const SubcommandReports& all, std::size_t column) {
  std::set<std::string> values;
  for (const Report& report : all.reports) values.insert(value_text(report.asked[column]));
  return values.size();
}

bool is_number(const SubcommandReports& all, std::size_t column) {
  return std::all_of(all.reports.begin(), all.reports.end(),
                     [&](const Report& a) { return value_number(a.asked[column]).has_value(); });
}

/// Columns of numbers, or of words, that take the most values, at most `most` of them.
std::vector<std::size_t> widest(const SubcommandReports& all, bool numbers, std::size_t most) {
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < all.names.size(); ++c)
    if (is_number(all, c) == numbers && values_of(all, c) > 1) columns.push_back(c);
  std::stable_sort(columns.begin(), columns.end(), [&](std::size_t a, std::size_t b) {
    return values_of(all, a) > values_of(all, b);
  });
  if (columns.size() > most) columns.resize(most);
  return columns;
}

/// Told by all columns but `left_out`: "resnet50, v100".
std::string label_of(const Report& report, std::size_t left_out) {
  std::string label;
  for (std::size_t c = 0; c < report.asked.size(); ++c) {
    const std::string text = value_text(report.asked[c]);
    if (c != left_out && !text.empty()) label += (label.empty() ? "" : ", ") + text;
  }
  return label.empty() ? "all" : label;
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string id_of(SweepSubcommand subcommand, const char* what) {
  return fmt::format("{}-{}", sweep_tables()[static_cast<std::size_t>(subcommand)].name, what);
}

PageJson chart_of(const SubcommandReports& all, std::size_t x) {
  const Figure figure = figures_of(all.subcommand).front();
  PageJson section = new_section(
      {.id = id_of(all.subcommand, "chart"),
       .title = capital(fmt::format("{} by {}", figure.label, all.names[x])),
       .kind = "chart",
       .text = "A line is what all but this have in common; where lines would be too many, points.",
       .trust = "90 % interval round each point."});
  std::map<std::string, std::vector<const Report*>> lines;
  double least = 0, greatest = 0;
  for (const Report& report : all.reports) {
    if (!report.figures.front()) continue;
    const double at = *value_number(report.asked[x]);
    least = lines.empty() ? at : std::min(least, at);
    greatest = std::max(greatest, at);
    lines[label_of(report, x)].push_back(&report);
  }
  const bool too_many = lines.size() > kMostLines;
  if (too_many) {
    std::map<std::string, std::vector<const Report*>> one;
    for (auto& [name, members] : lines)
      one["all"].insert(one["all"].end(), members.begin(), members.end());
    lines = std::move(one);
  }
  section["x"] = {
      {"label", all.names[x]}, {"unit", ""}, {"log", least > 0 && greatest >= 8 * least}};
  section["y"] = {{"label", figure.label}, {"unit", figure.unit}, {"min", 0}};
  section["series"] = PageJson::array();
  for (auto& [name, members] : lines) {
    std::stable_sort(members.begin(), members.end(), [x](const Report* a, const Report* b) {
      return *value_number(a->asked[x]) < *value_number(b->asked[x]);
    });
    PageJson series = {{"name", name}, {"form", too_many ? "points" : "line"}};
    for (const char* key : {"x", "y", "low", "high", "labels"}) series[key] = PageJson::array();
    for (const Report* report : members) {
      series["x"].push_back(*value_number(report->asked[x]));
      series["y"].push_back(*report->figures.front());
      series["low"].push_back(report->low.value_or(*report->figures.front()));
      series["high"].push_back(report->high.value_or(*report->figures.front()));
      series["labels"].push_back(too_many ? label_of(*report, x) : report->status);
    }
    section["series"].push_back(std::move(series));
  }
  return section;
}

/// The figure that charts show, of what fits.
std::optional<double> fitting(const Report& report) {
  return is_predicted(report.status) ? report.figures.front() : std::nullopt;
}

/// The best of what is asked in a cell and fits.
PageJson map_of(const SubcommandReports& all, std::size_t x, std::size_t y) {
  const Figure figure = figures_of(all.subcommand).front();
  const bool less_is_better = all.subcommand == SweepSubcommand::Serve;
  PageJson section = new_section(
      {.id = id_of(all.subcommand, "map"),
       .title = fmt::format("Best {} by {} and {}", figure.label, all.names[y], all.names[x]),
       .kind = "heatmap",
       .text = "The best of a cell's points that fit. An empty cell says why.",
       .trust = "90 % interval of each in its tip."});
  std::vector<std::string> places[2];
  std::map<std::pair<std::size_t, std::size_t>, const Report*> cells;
  const auto place_of = [](std::vector<std::string>& names, const std::string& name) {
    const auto at = std::find(names.begin(), names.end(), name);
    const auto index = static_cast<std::size_t>(at - names.begin());
    if (at == names.end()) names.push_back(name);
    return index;
  };
  for (const Report& report : all.reports) {
    const Report*& best = cells[{place_of(places[1], value_text(report.asked[y])),
                                 place_of(places[0], value_text(report.asked[x]))}];
    const auto value = fitting(report), before = best != nullptr ? fitting(*best) : std::nullopt;
    const bool wins = value && (!before || (*value < *before) == less_is_better);
    if (best == nullptr || wins) best = &report;
  }
  for (const char* key : {"values", "low", "high", "notes"}) section[key] = PageJson::array();
  for (std::size_t row = 0; row < places[1].size(); ++row) {
    PageJson values = PageJson::array(), low = values, high = values, notes = values;
    for (std::size_t column = 0; column < places[0].size(); ++column) {
      const auto found = cells.find({row, column});
      const Report* report = found == cells.end() ? nullptr : found->second;
      const bool is_reported = report != nullptr && fitting(*report);
      values.push_back(is_reported ? cell_json(fitting(*report)) : PageJson());
      low.push_back(is_reported ? cell_json(report->low) : PageJson());
      high.push_back(is_reported ? cell_json(report->high) : PageJson());
      notes.push_back(report == nullptr         ? "not asked for"
                      : report->refused.empty() ? label_of(*report, x) + ": " + report->status
                                                : report->refused);
    }
    section["values"].push_back(std::move(values));
    section["low"].push_back(std::move(low));
    section["high"].push_back(std::move(high));
    section["notes"].push_back(std::move(notes));
  }
  section["x"] = {{"label", all.names[x]}, {"names", places[0]}};
  section["y"] = {{"label", all.names[y]}, {"names", places[1]}};
  section["unit"] = figure.unit;
  return section;
}

PageJson table_of(const SubcommandReports& all) {
  const std::vector<Figure> figures = figures_of(all.subcommand);
  PageJson section =
      new_section({.id = id_of(all.subcommand, "points"),
                   .title = "Point by point",
                   .kind = "table",
                   .text = "What was asked, in the fields that differ, and what came "
                           "out. tracecast query asks the file for all of it."});
  section["columns"] = PageJson::array();
  for (std::size_t c = 0; c < all.names.size(); ++c) {
    PageJson column = {{"name", all.names[c]}};
    if (is_number(all, c)) column["unit"] = "count";
    section["columns"].push_back(std::move(column));
  }
  section["columns"].push_back({{"name", "status"}});
  for (std::size_t f = 0; f < figures.size(); ++f) {
    section["columns"].push_back(
        {{"name", figures[f].label}, {"unit", figures[f].unit}, {"bar", f == 0}});
    if (f > 0) continue;
    section["columns"].push_back({{"name", "low"}, {"unit", figures[f].unit}});
    section["columns"].push_back({{"name", "high"}, {"unit", figures[f].unit}});
  }
  section["rows"] = PageJson::array();
  for (const Report& report : all.reports) {
    PageJson row = PageJson::array();
    for (const Value& value : report.asked) row.push_back(value_json(value));
    row.push_back(report.refused.empty() ? report.status : report.refused);
    for (std::size_t f = 0; f < figures.size(); ++f) {
      row.push_back(cell_json(report.figures[f]));
      if (f > 0) continue;
      row.push_back(cell_json(report.low));
      row.push_back(cell_json(report.high));
    }
    section["rows"].push_back(std::move(row));
  }
  return section;
}

void add_sections(const SubcommandReports& all, PageJson& sections) {
  const std::vector<std::size_t> numbers = widest(all, true, 1), words = widest(all, false, 2);
  const bool is_reported = std::any_of(all.reports.begin(), all.reports.end(), [](const Report& a) {
    return a.figures.front().has_value();
  });
  if (is_reported && !numbers.empty()) sections.push_back(chart_of(all, numbers.front()));
  if (is_reported && words.size() == 2) sections.push_back(map_of(all, words[0], words[1]));
  sections.push_back(table_of(all));
}

}  // namespace

void write_sweep_page(const SweepGrid& grid, const SweepSummary& summary,
                      const std::string& results, const std::string& file) {
  PageJson page =
      new_page({.subcommand = "sweep",
                .title = fmt::format("{} points", summary.points),
                .subtitle = fmt::format("Answers in {}", results),
                .report = fmt::format(
                    "{} of {} points are answered, {} do not fit into memory, {} are "
                    "refused.",
                    summary.succeeded, summary.points, summary.too_large, summary.refused)});
  page["headline"] = {page_fact("Predicted", static_cast<double>(summary.succeeded), "count"),
                      page_fact("Do not fit", static_cast<double>(summary.too_large), "count",
                                "answered as if they did"),
                      page_fact("Refused", static_cast<double>(summary.refused), "count")};
  if (grid.size() > kMostShown)
    page["warnings"] = {fmt::format("Shown are the first {} points of the grid.", kMostShown)};
  page["sections"] = PageJson::array();
  for (const SweepSubcommand subcommand : kSweepSubcommands) {
    const SubcommandReports all = reports_of(grid, subcommand, results);
    if (!all.reports.empty()) add_sections(all, page["sections"]);
  }
  write_page(std::move(page), file);
}

}  // namespace tracecast
