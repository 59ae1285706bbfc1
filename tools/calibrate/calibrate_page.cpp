#include "tools/calibrate/calibrate_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/text.hpp"
#include "tools/command/output.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

constexpr double kZ90 = 1.645;  // of a normal distribution: 90 % lie within so many deviations

/// Each parameter over what was believed of it, with what is left of doubt.
PageJson shifts_section(const PageJson& parameters) {
  PageJson section = new_section(
      {.id = "shifts",
       .title = "Parameters beside their priors",
       .kind = "chart",
       .text = "1: the measurements left it where it was believed. Names in the tips, in the "
               "order of the table.",
       .trust = "Whiskers: 90 % of what the fit leaves open, as far as rows and prior tell."});
  PageJson x = PageJson::array(), y = x, low = x, high = x, labels = x;
  for (const PageJson& p : parameters) {
    const double ratio = p["value"].get<double>() / p["prior_value"].get<double>();
    if (!(ratio > 0) || !std::isfinite(ratio)) continue;
    const double factor = std::exp(kZ90 * p["log_sd"].get<double>());
    x.push_back(x.size());
    y.push_back(ratio);
    low.push_back(ratio / factor);
    high.push_back(ratio * factor);
    labels.push_back(p["name"]);
  }
  const std::size_t last = x.empty() ? 0 : x.size() - 1;
  section["x"] = {{"label", "parameter"}, {"unit", ""}};
  section["y"] = {{"label", "fitted / prior"}, {"unit", ""}, {"log", true}};
  section["series"] = {{{"name", "fitted"},
                        {"form", "points"},
                        {"x", std::move(x)},
                        {"y", std::move(y)},
                        {"low", std::move(low)},
                        {"high", std::move(high)},
                        {"labels", std::move(labels)}},
                       {{"name", "prior"}, {"form", "reference"}, {"x", {0, last}}, {"y", {1, 1}}}};
  return section;
}

PageJson parameters_section(const PageJson& parameters) {
  PageJson section = new_section({.id = "parameters", .title = "Parameters", .kind = "table"});
  section["columns"] = {{{"name", "parameter"}},
                        {{"name", "value"}, {"unit", ""}},
                        {{"name", "uncertainty"}, {"unit", "share"}},
                        {{"name", "prior"}, {"unit", ""}},
                        {{"name", "uncertainty before"}, {"unit", "share"}},
                        {{"name", "rows of"}}};
  section["rows"] = PageJson::array();
  for (const PageJson& p : parameters) {
    section["rows"].push_back({p["name"], p["value"], p["log_sd"], p["prior_value"],
                               p["prior_log_sd"], p["main_source"]});
  }
  return section;
}

/// Sustained arithmetic and bandwidth of each GPU over what its spec explains.
PageJson boards_section(const PageJson& gpus) {
  PageJson section = new_section(
      {.id = "boards",
       .title = "GPUs beside their specs",
       .kind = "chart",
       .text = "What a board does over what its spec and the shared parameters explain: cooling, "
               "limits, firmware. It is kept out of the profile."});
  PageJson names = PageJson::array(), places = names, arithmetic = names, bandwidth = names;
  for (const PageJson& gpu : gpus) {
    places.push_back(names.size());
    names.push_back(gpu["gpu"]);
    arithmetic.push_back(gpu["arithmetic"]);
    bandwidth.push_back(gpu["bandwidth"]);
  }
  section["x"] = {{"label", "GPU"}, {"unit", ""}, {"names", std::move(names)}};
  section["y"] = {{"label", "over its spec"}, {"unit", ""}, {"min", 0}};
  section["series"] = {
      {{"name", "arithmetic"}, {"form", "points"}, {"x", places}, {"y", std::move(arithmetic)}},
      {{"name", "bandwidth"}, {"form", "points"}, {"x", places}, {"y", std::move(bandwidth)}}};
  return section;
}

PageJson tables_section(const PageJson& tables) {
  PageJson section = new_section({.id = "tables", .title = "Tables read", .kind = "table"});
  section["columns"] = {{{"name", "table"}},
                        {{"name", "rows"}, {"unit", "count"}},
                        {{"name", "usable"}, {"unit", "count"}, {"bar", true}},
                        {{"name", "without a prediction"}, {"unit", "count"}},
                        {{"name", "refused"}, {"unit", "count"}}};
  section["rows"] = PageJson::array();
  for (const PageJson& table : tables) {
    section["rows"].push_back({table["file"], table["rows"], table["usable"], table["unpredicted"],
                               table["refused"].size()});
  }
  return section;
}

}  // namespace

void write_fit_page(std::string_view fit_json, const std::string& file) {
  const PageJson fit = PageJson::parse(fit_json);
  const auto rows = fit["rows"].get<std::size_t>();
  const PageJson none = PageJson::array();
  const PageJson parameters = fit.value("parameters", none);
  PageJson page = new_page({.subcommand = "calibrate",
                            .title = fmt::format("A fit to {} rows", rows),
                            .subtitle = fmt::format("{} parameters", parameters.size()),
                            .report = fit["converged"].get<bool>()
                                          ? "The fit converged."
                                          : "The fit was stopped before it converged."});
  page["headline"] = {page_words("Rows", fmt::format("{}", rows)),
                      page_words("Parameters", fmt::format("{}", parameters.size())),
                      page_words("Iterations", fmt::format("{}", fit["iterations"].get<int>()))};
  PageJson& sections = page["sections"];
  if (!parameters.empty()) sections.push_back(shifts_section(parameters));
  if (fit.contains("gpus")) sections.push_back(boards_section(fit["gpus"]));
  if (!parameters.empty()) sections.push_back(parameters_section(parameters));
  const PageJson tables = fit.value("tables", none);
  sections.push_back(tables_section(tables));
  page["inputs"] = none;
  for (const PageJson& table : tables)
    page["inputs"].push_back(
        {{"kind", "table"}, {"name", table["file"]}, {"sha256", table["sha256"]}});
  write_page(std::move(page), file);
}

void write_check_page(std::string_view check_json, const std::string& file) {
  const PageJson groups = PageJson::parse(check_json)["groups"];
  PageJson table = new_section({.id = "groups",
                                .title = "Part by part",
                                .kind = "table",
                                .text = "Rows of the part that was left out, priced by a fit to "
                                        "the others."});
  table["columns"] = {{{"name", "left out"}},
                      {{"name", "GPU"}},
                      {{"name", "rows of"}},
                      {{"name", "rows"}, {"unit", "count"}},
                      {{"name", "mean error"}, {"unit", "share"}, {"bar", true}},
                      {{"name", "median"}, {"unit", "share"}},
                      {{"name", "90th of 100"}, {"unit", "share"}},
                      {{"name", "bias"}, {"unit", "share"}},
                      {{"name", "inside the interval"}, {"unit", "share"}},
                      {{"name", "half its width"}, {"unit", "share"}}};
  table["rows"] = PageJson::array();
  PageJson x = PageJson::array(), y = x, labels = x;
  std::set<std::string> parts;
  double sum = 0, inside = 0, count = 0;
  for (const PageJson& g : groups) {
    const std::string what =
        fmt::format("{} {} {}", g["source"].get<std::string>(), g["group"].get<std::string>(),
                    g["split"].get<std::string>());
    table["rows"].push_back({g["left_out"], g["gpu"], what, g["n"], g["mape"], g["median_ape"],
                             g["p90_ape"], g["bias"], g["coverage90"], g["half_width90"]});
    parts.insert(g["left_out"].get<std::string>());
    x.push_back(g["half_width90"]);
    y.push_back(g["coverage90"]);
    labels.push_back(g["gpu"].get<std::string>() + ": " + what);
    const double n = g["n"];
    sum += n * g["mape"].get<double>();
    inside += n * g["coverage90"].get<double>();
    count += n;
  }
  const double of = count > 0 ? count : 1;
  PageJson page = new_page(
      {.subcommand = "calibrate check",
       .title = "Errors of what a fit has not seen",
       .subtitle = fmt::format("{} parts, each left out once", parts.size()),
       .report = groups.empty() ? std::string("No row could be judged.")
                                : fmt::format("Rows that were left out err {} on average; {} of "
                                              "them lie inside their 90 % interval.",
                                              percent(sum / of), percent(inside / of))});
  page["headline"] = {page_fact("Mean error", sum / of, "share"),
                      page_fact("Inside the interval", inside / of, "share", "90 % would be right"),
                      page_words("Rows", fmt::format("{:.0f}", count))};
  PageJson chart = new_section({.id = "intervals",
                                .title = "Are the intervals right?",
                                .kind = "chart",
                                .text = "Left: narrow. On the line: as often inside as they say."});
  double widest = 0;
  for (const PageJson& width : x) widest = std::max(widest, width.get<double>());
  chart["x"] = {{"label", "half the interval's width, median"}, {"unit", "share"}, {"min", 0}};
  chart["y"] = {{"label", "inside"}, {"unit", "share"}, {"min", 0}, {"max", 1}};
  chart["series"] = {
      {{"name", "groups"},
       {"form", "points"},
       {"x", std::move(x)},
       {"y", std::move(y)},
       {"labels", std::move(labels)}},
      {{"name", "as they say"}, {"form", "reference"}, {"x", {0.0, widest}}, {"y", {0.9, 0.9}}}};
  page["sections"] = {std::move(chart), std::move(table)};
  page["inputs"] = PageJson::array();
  write_page(std::move(page), file);
}

}  // namespace tracecast
