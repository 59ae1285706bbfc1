#include "tools/plan/compare_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "sim/base/text.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

/// What a kind of comparison compares: where its figures stand in a row, and what a row is of
/// beside the GPU.
struct Compared {
  std::string speed;       ///< key of the interval
  std::string speed_name;  ///< for people
  std::string unit;
  std::string load;       ///< key of batch or requests in flight
  std::string load_name;  ///< "batch 64"
  std::string work;       ///< that money is reported for: "million tokens"
};

/// Key of the first row's member that begins so; empty: none.
std::string key_from(const PageJson& rows, std::string_view begin) {
  for (const PageJson& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (key.starts_with(begin)) return key;
    }
  }
  return {};
}

Compared compared_of(const PageJson& rows) {
  Compared c;
  const bool serves = !rows.empty() && rows.front().contains("tokens_per_s");
  c.speed = serves ? "tokens_per_s" : "throughput_samples_per_s";
  c.speed_name = serves ? "tokens of answers" : "throughput";
  c.unit = serves ? "tokens/s" : "samples/s";
  c.load = serves ? "in_flight" : "batch_per_gpu";
  c.load_name = serves ? "in flight" : "batch";
  c.work = key_from(rows, "owned_usd_per_");
  c.work = c.work.empty() ? "work" : c.work.substr(std::string_view("owned_usd_per_").size());
  std::replace(c.work.begin(), c.work.end(), '_', ' ');
  return c;
}

bool is_reported(const PageJson& row, const Compared& c) { return !row[c.speed].is_null(); }

/// "batch 64", "16 in flight", "within the limits".
std::string load_of(const PageJson& row, const Compared& c) {
  const PageJson& load = row[c.load];
  if (load.is_null()) return "within the limits";
  return c.load == "in_flight" ? fmt::format("{} in flight", load.get<std::int64_t>())
                               : fmt::format("batch {}", load.get<std::int64_t>());
}

/// One series per load over the GPUs, of what `value` finds in a row.
PageJson by_gpu(const SectionHead& head, const PageJson& rows, const Compared& c,
                const PageJson& axis,
                const std::function<std::optional<Interval>(const PageJson& row)>& value) {
  PageJson section = new_section(head);
  PageJson names = PageJson::array();
  std::map<std::string, std::size_t> places;
  std::vector<std::string> loads;
  std::map<std::string, PageJson> series;
  for (const PageJson& row : rows) {
    const std::string gpu = row["gpu"];
    const auto [at, is_new] = places.emplace(gpu, names.size());
    if (is_new) names.push_back(gpu);
    const std::optional<Interval> found =
        row.value("fits", true) ? value(row) : std::optional<Interval>();
    if (!found) continue;
    const std::string load = load_of(row, c);
    PageJson& one = series[load];
    if (one.is_null()) {
      loads.push_back(load);
      one = {{"name", load}, {"form", "points"}};
      for (const char* key : {"x", "y", "low", "high"}) one[key] = PageJson::array();
    }
    one["x"].push_back(at->second);
    one["y"].push_back(found->value);
    one["low"].push_back(found->low);
    one["high"].push_back(found->high);
  }
  section["x"] = {{"label", "GPU"}, {"unit", ""}, {"names", std::move(names)}};
  section["y"] = axis;
  section["series"] = PageJson::array();
  for (const std::string& load : loads) section["series"].push_back(std::move(series[load]));
  return section;
}

std::optional<Interval> interval_in(const PageJson& row, const std::string& key) {
  if (!row.contains(key) || row[key].is_null()) return std::nullopt;
  const PageJson& i = row[key];
  return Interval{i["value"], i["low"], i["high"]};
}

/// Money per unit of work, with the interval of the speed it follows.
std::optional<Interval> money_in(const PageJson& row, const Compared& c, const std::string& key) {
  const auto speed = interval_in(row, c.speed);
  if (!speed || !row.contains(key) || row[key].is_null()) return std::nullopt;
  const double usd = row[key];
  return Interval{usd, usd * speed->value / speed->high, usd * speed->value / speed->low};
}

PageJson rows_section(const PageJson& rows, const Compared& c) {
  PageJson section = new_section({.id = "rows",
                                  .title = "Row by row",
                                  .kind = "table",
                                  .trust = "Low and high: 90 % interval."});
  const std::string owned = key_from(rows, "owned_usd_per_"),
                    rented = key_from(rows, "rented_usd_per_");
  section["columns"] = {{{"name", "GPU"}},
                        {{"name", c.load_name}, {"unit", "count"}},
                        {{"name", c.speed_name}, {"unit", c.unit}, {"bar", true}},
                        {{"name", "low"}, {"unit", c.unit}},
                        {{"name", "high"}, {"unit", c.unit}}};
  struct Column {
    const char *key, *name, *unit;
    double factor;
  };
  const Column kColumns[] = {{"memory_bytes", "memory", "B", 1},
                             {"memory_capacity_bytes", "of", "B", 1},
                             {"power_w", "power", "W", 1},
                             {"kv_tokens", "cache, tokens", "count", 1}};
  std::vector<Column> there;
  for (const Column& column : kColumns) {
    if (key_from(rows, column.key) != column.key) continue;
    there.push_back(column);
    section["columns"].push_back({{"name", column.name}, {"unit", column.unit}});
  }
  section["columns"].push_back({{"name", "own, per " + c.work}, {"unit", "USD"}});
  section["columns"].push_back({{"name", "rent, per " + c.work}, {"unit", "USD"}});
  section["columns"].push_back({{"name", "basis, or why not"}});
  section["rows"] = PageJson::array();
  for (const PageJson& row : rows) {
    PageJson cells = PageJson::array({row["gpu"], row[c.load]});
    const auto speed = interval_in(row, c.speed);
    for (double Interval::*member : {&Interval::value, &Interval::low, &Interval::high})
      cells.push_back(speed ? PageJson(*speed.*member) : PageJson());
    for (const Column& column : there) cells.push_back(row.value(column.key, PageJson()));
    for (const std::string& key : {owned, rented})
      cells.push_back(key.empty() ? PageJson() : row.value(key, PageJson()));
    const PageJson& refused = row["refused"];
    cells.push_back(!refused.is_null()         ? refused
                    : !row.value("fits", true) ? PageJson("does not fit the memory")
                                               : row.value("basis", PageJson("predicted")));
    section["rows"].push_back(std::move(cells));
  }
  return section;
}

std::string best_words(const PageJson& rows, const Compared& c) {
  const PageJson* quickest = nullptr;
  for (const PageJson& row : rows) {
    if (!is_reported(row, c) || !row.value("fits", true)) continue;
    if (quickest == nullptr || row[c.speed]["value"] > (*quickest)[c.speed]["value"])
      quickest = &row;
  }
  if (quickest == nullptr) return "None of them runs it.";
  return fmt::format("{} is quickest with {} {}, {}.", (*quickest)["gpu"].get<std::string>(),
                     three_digits((*quickest)[c.speed]["value"].get<double>()), c.unit,
                     load_of(*quickest, c));
}

}  // namespace

void write_compare_page(std::string_view common_json, const std::string& file) {
  const PageJson report = PageJson::parse(common_json);
  const PageJson& rows = report["rows"];
  const Compared c = compared_of(rows);
  std::set<std::string> kinds;
  for (const PageJson& row : rows) kinds.insert(row["gpu"].get<std::string>());
  PageJson page =
      new_page({.subcommand = "compare",
                .title = fmt::format("{} on {} kinds of GPU", report["network"].get<std::string>(),
                                     kinds.size()),
                .subtitle = fmt::format("{} of each kind; prices: {} of {}",
                                        report["gpus"].get<std::int64_t>(),
                                        report["catalogue"]["id"].get<std::string>(),
                                        report["catalogue"]["date"].get<std::string>()),
                .report = best_words(rows, c)});
  PageJson& sections = page["sections"];
  const PageJson speed_axis{{"label", c.speed_name}, {"unit", c.unit}, {"min", 0}};
  sections.push_back(by_gpu({.id = "speed",
                             .title = "Speed",
                             .kind = "chart",
                             .text = "Of all GPUs of a kind together.",
                             .trust = "Whiskers: 90 % interval."},
                            rows, c, speed_axis,
                            [&](const PageJson& row) { return interval_in(row, c.speed); }));
  const PageJson money_axis{{"label", "per " + c.work}, {"unit", "USD"}, {"min", 0}};
  for (const char* tenure : {"owned", "rented"}) {
    const std::string key = key_from(rows, std::string(tenure) + "_usd_per_");
    if (key.empty()) continue;
    sections.push_back(by_gpu(
        {.id = tenure,
         .title = std::string("Money, ") + tenure,
         .kind = "chart",
         .text = std::string("At the catalogue's prices; lower is better. ") +
                 (report["catalogue"].value("is_embedded", true) ? "They are partly guessed." : ""),
         .trust = "Whiskers: the speed's 90 % interval; prices as they are."},
        rows, c, money_axis, [&](const PageJson& row) { return money_in(row, c, key); }));
  }
  for (const auto& [key, title] : {std::pair{"ttft_ms", "Time to the first token"},
                                   std::pair{"tpot_ms", "Time per output token"}}) {
    if (key_from(rows, key).empty()) continue;
    sections.push_back(by_gpu({.id = key, .title = title, .kind = "chart", .text = "Means."}, rows,
                              c, {{"label", "time"}, {"unit", "s"}, {"min", 0}},
                              [&, key = std::string(key)](const PageJson& row) {
                                auto ms = interval_in(row, key);
                                if (ms) *ms = {ms->value * 1e-3, ms->low * 1e-3, ms->high * 1e-3};
                                return ms;
                              }));
  }
  sections.push_back(rows_section(rows, c));
  page["inputs"] = report.value("inputs", PageJson::array());
  write_page(std::move(page), file);
}

}  // namespace tracecast
