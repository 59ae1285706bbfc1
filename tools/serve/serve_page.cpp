#include "tools/serve/serve_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMostChartPoints = 2000;

PageJson served_fact(std::string_view label, const ServedFigure& figure, double unit_s) {
  const Interval& i = figure.interval;
  return page_fact(label, {i.value * unit_s, i.low * unit_s, i.high * unit_s}, "s");
}

PageJson latency_section(const ServingReport& a, bool is_queue_known) {
  PageJson section = new_section(
      {.id = "latency",
       .title = "Latency",
       .kind = "table",
       .text = "Over all measured requests; low and high bound the mean.",
       .trust = "90 % interval: error of a step's price and, where several runs were made, "
                "their spread."});
  section["columns"] = {{{"name", "time"}},
                        {{"name", "mean"}, {"unit", "s"}, {"bar", true}},
                        {{"name", "low"}, {"unit", "s"}},
                        {{"name", "high"}, {"unit", "s"}},
                        {{"name", "p50"}, {"unit", "s"}},
                        {{"name", "p90"}, {"unit", "s"}},
                        {{"name", "p99"}, {"unit", "s"}}};
  section["rows"] = PageJson::array();
  const auto add = [&](const char* name, const ServedLatency& l) {
    const double ms = 1e-3;
    section["rows"].push_back({name, l.mean.interval.value * ms, l.mean.interval.low * ms,
                               l.mean.interval.high * ms, l.p50.interval.value * ms,
                               l.p90.interval.value * ms, l.p99.interval.value * ms});
  };
  add("to first token", a.ttft_ms);
  add("per output token", a.tpot_ms);
  if (is_queue_known) add("between tokens", a.itl_ms);
  add("end to end", a.e2e_ms);
  if (is_queue_known) add("of it queued", a.queue_ms);
  return section;
}

double seconds(std::int64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

/// Share of requests done within a time, one line per kind of time; of many requests every so
/// many-th.
PageJson uncertainty_section(
    const SectionHead& head, const std::vector<serve::Request>& served,
    const std::map<std::string, std::function<double(const serve::Request&)>>& kinds_of_time) {
  PageJson section = new_section(head);
  section["x"] = {{"label", "time"}, {"unit", "s"}, {"min", 0}};
  section["y"] = {{"label", "requests"}, {"unit", "share"}, {"min", 0}, {"max", 1}};
  section["series"] = PageJson::array();
  for (const auto& [name, time_of] : kinds_of_time) {
    std::vector<double> times;
    for (const serve::Request& r : served) times.push_back(time_of(r));
    section["series"].push_back(page_uncertainty(name, std::move(times)));
  }
  return section;
}

/// How many requests were there, and how many of them had no token yet, over the simulated time.
PageJson in_flight_section(const std::vector<serve::Request>& served) {
  std::map<serve::Microseconds, std::pair<int, int>> changes;  // of requests, of those that wait
  for (const serve::Request& r : served) {
    auto& arrival = changes[r.arrival];
    ++arrival.first;
    ++arrival.second;
    --changes[r.first.value_or(r.last)].second;
    --changes[r.last].first;
  }
  PageJson section =
      new_section({.id = "in_flight",
                   .title = "Requests in flight",
                   .kind = "chart",
                   .text = "Measured requests that are in the house, and those of them that wait "
                           "for their first token, over the simulated time."});
  PageJson x = PageJson::array(), all = PageJson::array(), waiting = PageJson::array();
  const std::size_t stride = changes.size() / kMostChartPoints + 1;
  int here = 0, wait = 0;
  std::size_t i = 0;
  for (const auto& [time, change] : changes) {
    here += change.first;
    wait += change.second;
    if (i++ % stride != 0 && i != changes.size()) continue;
    x.push_back(seconds(time));
    all.push_back(here);
    waiting.push_back(wait);
  }
  section["x"] = {{"label", "simulated time"}, {"unit", "s"}};
  section["y"] = {{"label", "requests"}, {"unit", "count"}, {"min", 0}};
  section["series"] = {{{"name", "in flight"}, {"form", "steps"}, {"x", x}, {"y", std::move(all)}},
                       {{"name", "waiting for the first token"},
                        {"form", "steps"},
                        {"x", x},
                        {"y", std::move(waiting)}}};
  return section;
}

PageJson bars_section(const SectionHead& head, std::string_view unit, double whole,
                      const std::vector<std::pair<std::string, double>>& bars) {
  PageJson section = new_section(head);
  section["unit"] = unit;
  section["whole"] = whole;
  section["bars"] = PageJson::array();
  for (const auto& [name, value] : bars) {
    if (value > 0) section["bars"].push_back({{"name", name}, {"value", value}});
  }
  return section;
}

PageJson memory_section(const serve::ServedMemory& m) {
  const double taken =
      (m.weights + m.activations + m.graphs + m.buffers + m.context + m.cache).in_bytes();
  return bars_section({.id = "memory",
                       .title = "Memory of a GPU",
                       .kind = "bars",
                       .text = "The cache takes what the engine's share of the board leaves."},
                      "B", m.board.in_bytes(),
                      {{"weights", m.weights.in_bytes()},
                       {"cache of keys and values", m.cache.in_bytes()},
                       {"activations", m.activations.in_bytes()},
                       {"graphs", m.graphs.in_bytes()},
                       {"buffers and context", (m.buffers + m.context).in_bytes()},
                       {"left", std::max(0.0, m.board.in_bytes() - taken)}});
}

std::vector<InputRecord> inputs_of(const ServeQuestion& q, const ServingReport& a) {
  std::vector<InputRecord> inputs = q.inputs;
  inputs.insert(inputs.end(), a.inputs.begin(), a.inputs.end());
  return inputs;
}

std::string title_of(const ServingReport& a) {
  return fmt::format("{} on {} x {}", a.network, a.gpus, a.gpu);
}

PageJson refused_page(const ServeQuestion& q, const ServingReport& a) {
  PageJson page = new_page({.subcommand = "serve",
                            .title = title_of(a),
                            .subtitle = a.engine + ", " + q.job.precision,
                            .report = "It does not fit; " + a.change + " would."});
  page["sections"].push_back(memory_section(a.memory));
  add_inputs(page, inputs_of(q, a));
  return page;
}

void add_headline(PageJson& page, const ServeQuestion& q, const ServingReport& a) {
  PageJson& facts = page["headline"];
  if (q.found_rate) facts.push_back(page_fact("Load it bears", *q.found_rate, "requests/s"));
  facts.push_back(served_fact("To first token, mean", a.ttft_ms.mean, 1e-3));
  facts.push_back(served_fact("Per output token, mean", a.tpot_ms.mean, 1e-3));
  facts.push_back(served_fact("End to end, mean", a.e2e_ms.mean, 1e-3));
  facts.push_back(page_fact("Tokens of a GPU", a.tokens_per_s_per_gpu, "tokens/s"));
  facts.push_back(page_fact("Tokens of a user", a.tokens_per_s_per_user, "tokens/s"));
  facts.push_back(page_fact("Power of a GPU", a.power_w, "W"));
  facts.push_back(page_fact("Energy of a token", a.energy_j_per_token, "J"));
  if (const auto cost = cost_per_million(q, a))
    facts.push_back(page_fact("Cost of a million output tokens", *cost, "USD"));
  facts.push_back(page_fact("Busy", a.utilization, "share"));
  facts.push_back(page_words("Limited by", a.limited_by));
}

}  // namespace

void write_serve_page(const ServeQuestion& q, const ServingReport& a, const std::string& file) {
  if (!a.fits) {
    write_page(refused_page(q, a), file);
    return;
  }
  PageJson page = new_page(
      {.subcommand = "serve",
       .title = title_of(a),
       .subtitle = fmt::format("{}, {}, {} replica{} of tp {}", a.engine, q.job.precision,
                               a.replicas, a.replicas == 1 ? "" : "s", a.tensor),
       .report = fmt::format(
           "The first token comes after {} ms on average, the others {} ms apart; "
           "a GPU makes {} tokens a second.",
           three_digits(a.ttft_ms.mean.interval.value), three_digits(a.tpot_ms.mean.interval.value),
           three_digits(a.tokens_per_s_per_gpu))});
  add_headline(page, q, a);
  page["assumptions"] = a.assumptions;
  PageJson& sections = page["sections"];
  sections.push_back(latency_section(a, !q.load.batch));
  if (!a.served.empty()) {
    sections.push_back(uncertainty_section(
        {.id = "uncertainty",
         .title = "Spread of times",
         .kind = "chart",
         .text = "Share of requests whose time was at most so long."},
        a.served,
        {{"to first token",
          [](const serve::Request& r) { return seconds(r.first.value_or(r.last) - r.arrival); }},
         {"end to end", [](const serve::Request& r) { return seconds(r.last - r.arrival); }}}));
    sections.push_back(uncertainty_section(
        {.id = "token_sd",
         .title = "Spread of the time per output token",
         .kind = "chart",
         .text = "Share of requests whose tokens after the first came at most so far apart, "
                 "on average over the request."},
        a.served, {{"per output token", [](const serve::Request& r) {
                      const auto later = std::max<std::int64_t>(1, r.output - 1);
                      return seconds(r.last - r.first.value_or(r.last)) /
                             static_cast<double>(later);
                    }}}));
    sections.push_back(in_flight_section(a.served));
  }
  sections.push_back(bars_section({.id = "time",
                                   .title = "Where busy time goes",
                                   .kind = "bars",
                                   .text = "Of the time in which a step runs."},
                                  "share", 1, a.shares));
  sections.push_back(memory_section(a.memory));
  add_inputs(page, inputs_of(q, a));
  write_page(std::move(page), file);
}

void write_front_page(const ServeQuestion& q, const std::vector<FrontPoint>& points,
                      const std::string& file) {
  const FrontPoint* quickest = nullptr;
  std::map<std::int64_t, PageJson> lines;
  PageJson table = new_section({.id = "points", .title = "Point by point", .kind = "table"});
  table["columns"] = {{{"name", "tensor ranks"}, {"unit", "count"}},
                      {{"name", "in flight"}, {"unit", "count"}},
                      {{"name", "of a GPU"}, {"unit", "tokens/s"}, {"bar", true}},
                      {{"name", "of a user"}, {"unit", "tokens/s"}},
                      {{"name", "to first token"}, {"unit", "s"}},
                      {{"name", "per output token"}, {"unit", "s"}},
                      {{"name", "on the front"}}};
  table["rows"] = PageJson::array();
  for (const FrontPoint& p : points) {
    if (!p.report.fits) {
      table["rows"].push_back({p.tensor, p.load, nullptr, nullptr, nullptr, nullptr, "no memory"});
      continue;
    }
    const ServingReport& a = p.report;
    if (quickest == nullptr || a.tokens_per_s_per_gpu > quickest->report.tokens_per_s_per_gpu)
      quickest = &p;
    table["rows"].push_back({p.tensor, p.load, a.tokens_per_s_per_gpu, a.tokens_per_s_per_user,
                             a.ttft_ms.mean.interval.value * 1e-3,
                             a.tpot_ms.mean.interval.value * 1e-3, p.is_best ? "yes" : "no"});
    PageJson& line = lines[p.tensor];
    if (line.is_null()) {
      line = {{"name", fmt::format("tp {}", p.tensor)},
              {"form", "line"},
              {"x", PageJson::array()},
              {"y", PageJson::array()},
              {"labels", PageJson::array()}};
    }
    line["x"].push_back(a.tokens_per_s_per_user);
    line["y"].push_back(a.tokens_per_s_per_gpu);
    line["labels"].push_back(
        fmt::format("{} in flight{}", p.load, p.is_best ? ", on the front" : ""));
  }
  PageJson page = new_page(
      {.subcommand = "serve",
       .title = fmt::format("{}: a GPU's tokens against a user's", q.job.network),
       .subtitle = fmt::format("{} loads and parallel layouts", points.size()),
       .report = quickest == nullptr
                     ? std::string("None fits.")
                     : fmt::format("Most tokens of a GPU: {} a second, with tp {} and {} requests "
                                   "in flight; a user then sees {} a second.",
                                   three_digits(quickest->report.tokens_per_s_per_gpu),
                                   quickest->tensor, quickest->load,
                                   three_digits(quickest->report.tokens_per_s_per_user))});
  PageJson chart = new_section({.id = "front",
                                .title = "Tokens of a GPU against tokens of a user",
                                .kind = "chart",
                                .text = "Up: cheaper. Right: quicker for who reads. A line per "
                                        "number of tensor ranks, a point per load."});
  chart["x"] = {{"label", "of a user"}, {"unit", "tokens/s"}, {"min", 0}};
  chart["y"] = {{"label", "of a GPU"}, {"unit", "tokens/s"}, {"min", 0}};
  chart["series"] = PageJson::array();
  for (auto& [tensor, line] : lines) chart["series"].push_back(std::move(line));
  page["sections"] = {std::move(chart), std::move(table)};
  add_inputs(page, quickest == nullptr ? q.inputs : inputs_of(q, quickest->report));
  write_page(std::move(page), file);
}

}  // namespace tracecast
