#include "tools/serve/serve_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/new_file.hpp"
#include "sim/base/text.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

Json figure_json(const ServedFigure& f) {
  Json doc = interval_json(f.interval);
  doc["simulation_half_width"] = f.half_width;
  return doc;
}
Json latency_json(const ServedLatency& l) {
  return {{"mean", figure_json(l.mean)},
          {"p50", figure_json(l.p50)},
          {"p90", figure_json(l.p90)},
          {"p99", figure_json(l.p99)}};
}

std::string load_words(const ServingLoad& l) {
  if (l.batch) return fmt::format("one batch of {}", *l.batch);
  if (l.concurrency) return fmt::format("{} in flight", *l.concurrency);
  if (l.trace) return fmt::format("{} recorded requests", l.trace->size());
  return fmt::format("{} requests/s, {}", three_digits(l.per_second.value_or(0)), l.arrivals);
}

Json memory_json(const ServingReport& a) {
  const serve::ServedMemory& m = a.memory;
  return {{"board_bytes", m.board.in_bytes()},
          {"budget_bytes", m.budget.in_bytes()},
          {"weights_bytes", m.weights.in_bytes()},
          {"activations_bytes", m.activations.in_bytes()},
          {"graphs_bytes", m.graphs.in_bytes()},
          {"buffers_bytes", (m.buffers + m.context).in_bytes()},
          {"kv_bytes", m.cache.in_bytes()},
          {"fits", a.fits}};
}

Json common_json(const ServeQuestion& q, const ServingReport& a) {
  Json doc{{"network", a.network},
           {"gpu", a.gpu},
           {"machine", a.machine},
           {"gpus", a.gpus},
           {"replicas", a.replicas},
           {"tp", a.tensor},
           {"pp", a.pipeline},
           {"ep", a.experts},
           {"dp", a.data},
           {"engine", a.engine},
           {"precision", q.job.precision},
           {"load", load_words(q.load)}};
  if (q.found_rate) doc["rate_per_s"] = *q.found_rate;
  doc["memory"] = memory_json(a);
  doc["kv_tokens"] = a.replica_cache_tokens;
  if (!a.fits) {
    doc["change"] = a.change;
    return doc;
  }
  doc["ttft_ms"] = latency_json(a.ttft_ms);
  doc["tpot_ms"] = latency_json(a.tpot_ms);
  doc["itl_ms"] = latency_json(a.itl_ms);
  doc["e2e_ms"] = latency_json(a.e2e_ms);
  doc["queue_ms"] = latency_json(a.queue_ms);
  doc["frontend_ms"] = a.frontend_ms;
  doc["requests"] = a.requests;
  doc["turned_away"] = a.turned_away;
  doc["tokens_per_s"] = a.tokens_per_s;
  doc["tokens_per_s_per_gpu"] = a.tokens_per_s_per_gpu;
  doc["tokens_per_s_per_user"] = a.tokens_per_s_per_user;
  doc["preemptions"] = a.preemptions;
  doc["swapped"] = a.swapped;
  doc["recomputed_share"] = a.recomputed_share;
  doc["kv_use"] = a.cache_use;
  doc["utilization"] = a.utilization;
  doc["model_flops_utilization"] = a.mfu;
  doc["power_w"] = {{"idle", a.idle_power_w}, {"avg", a.power_w}};
  doc["energy_j_per_token"] = a.energy_j_per_token;
  const auto cost = cost_per_million(q, a);
  doc["cost_usd_per_million_tokens"] = cost ? Json(*cost) : Json();
  doc["limited_by"] = a.limited_by;
  doc["overloaded_at_requests_per_s"] = a.overloaded_at ? Json(*a.overloaded_at) : Json();
  doc["steps"] = a.steps;
  doc["step_log_sd"] = a.log_sd;
  doc["unknown_share"] = a.guessed_share;
  doc["breakdown"] = Json::array();
  for (const auto& [part, share] : a.shares)
    doc["breakdown"].push_back({{"class", part}, {"share", share}});
  return doc;
}

Json envelope(const ServeQuestion& q, const ServingReport& a) {
  Json doc{{"schema", fmt::format("tracecast.serve/{}", kSchema)}, {"version", kVersion}};
  doc["inputs"] = Json::array();
  for (const auto* list : {&q.inputs, &a.inputs})
    for (const InputRecord& input : *list)
      doc["inputs"].push_back(
          {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  doc["seed"] = q.load.seed;
  doc["assumptions"] = a.assumptions;
  return doc;
}

/// One figure of a measured run beside its prediction.
struct Compared {
  std::string_view metric, statistic;
  double measured = 0;
  Interval predicted;
  [[nodiscard]] double error() const { return predicted.value / measured - 1; }
  [[nodiscard]] bool is_inside() const {
    return predicted.low <= measured && measured <= predicted.high;
  }
};

std::vector<Compared> compared(const MeasuredRunReport& m) {
  std::vector<Compared> rows;
  const auto add = [&](std::string_view metric, const MeasuredLatency& measured,
                       const ServedLatency& predicted) {
    const auto one = [&](std::string_view statistic, const std::optional<double>& value,
                         const ServedFigure& figure) {
      if (value) rows.push_back({metric, statistic, *value, figure.interval});
    };
    one("mean", measured.mean, predicted.mean);
    one("p50", measured.p50, predicted.p50);
    one("p90", measured.p90, predicted.p90);
    one("p99", measured.p99, predicted.p99);
  };
  add("ttft_ms", m.result.ttft_ms, m.predicted.ttft_ms);
  add("tpot_ms", m.result.tpot_ms, m.predicted.tpot_ms);
  add("itl_ms", m.result.itl_ms, m.predicted.itl_ms);
  add("e2e_ms", m.result.e2e_ms, m.predicted.e2e_ms);
  if (m.result.tokens_per_s) {
    const double v = m.predicted.tokens_per_s;
    rows.push_back({"tokens_per_s", "mean", *m.result.tokens_per_s, {v, v, v}});
  }
  return rows;
}

std::string load_with_lengths(const ServingLoad& load) {
  return fmt::format("{}, {} tokens in, {} out", load_words(load), load.input, load.output);
}

Json measured_json(const MeasuredRunReport& m) {
  Json doc{{"tool", m.result.tool},
           {"gpu", m.predicted.gpu},
           {"gpus", m.predicted.gpus},
           {"load", load_with_lengths(m.load)},
           {"same_place", m.is_same_place},
           {"prompt_step_factor", m.correction.prompt_factor},
           {"token_step_factor", m.correction.token_factor},
           {"met", m.correction.is_met},
           {"rows", Json::array()}};
  for (const Compared& row : compared(m)) {
    Json r{{"metric", row.metric},
           {"statistic", row.statistic},
           {"measured", row.measured},
           {"predicted", interval_json(row.predicted)},
           {"error", row.error()}};
    if (row.metric != "tokens_per_s") r["inside"] = row.is_inside();
    doc["rows"].push_back(std::move(r));
  }
  return doc;
}

void add_measured(std::string& page, const MeasuredRunReport& m) {
  page += fmt::format("Measured by {} on {} x {}, {}\n", m.result.tool, m.predicted.gpus,
                      m.predicted.gpu, load_with_lengths(m.load));
  page += fmt::format("  {:<22}{:>10}{:>10}{:>8}  {}\n", "", "measured", "predicted", "error",
                      "90 % interval");
  for (const Compared& row : compared(m)) {
    std::string line = fmt::format("  {:<14}{:<8}{:>10}{:>10}{:>7.0f}%", row.metric, row.statistic,
                                   low_precision(row.measured, 9),
                                   low_precision(row.predicted.value, 9), 100 * row.error());
    if (row.metric != "tokens_per_s")
      line += fmt::format("  {} to {}{}", low_precision(row.predicted.low, 7),
                          low_precision(row.predicted.high, 7), row.is_inside() ? "" : ", outside");
    page += line + "\n";
  }
  page += fmt::format(
      "  Steps of prompts take {:.2f} times the predicted, of tokens {:.2f} times{};\n  what "
      "follows is corrected by {}\n\n",
      m.correction.prompt_factor, m.correction.token_factor,
      m.correction.is_met ? "" : " (not met)",
      m.is_same_place ? "most of that: loads differ" : "half of that: places differ");
}

void add_latency(std::string& page, std::string_view name, const ServedLatency& l) {
  page += fmt::format("  {:<16}", name);
  for (const ServedFigure* f : {&l.mean, &l.p50, &l.p90, &l.p99})
    page += fmt::format("{:>8}", low_precision(f->interval.value, 7));
  page += fmt::format("  {:>7} to {:<7}", low_precision(l.mean.interval.low, 7),
                      low_precision(l.mean.interval.high, 7));
  if (l.mean.half_width > 0) page += fmt::format(" ±{}", low_precision(l.mean.half_width, 5));
  page += "\n";
}

std::string heading(const ServeQuestion& q, const ServingReport& a) {
  std::string page =
      fmt::format("{} on {} x {}, {}, {}\n", a.network, a.gpus, a.gpu, a.engine, q.job.precision);
  std::string sharing =
      fmt::format("{} replica{} of tp {}", a.replicas, a.replicas == 1 ? "" : "s", a.tensor);
  if (a.pipeline > 1) sharing += fmt::format(" pp {}", a.pipeline);
  if (a.data > 1) sharing += fmt::format(" dp {}", a.data);
  if (a.experts > 1) sharing += fmt::format(" ep {}", a.experts);
  add_line(page, "sharing", sharing);
  add_line(page, "load",
           load_words(q.load) +
               (q.load.trace ? std::string()
                             : fmt::format(", {} tokens in, {} out", q.load.input, q.load.output)));
  const serve::ServedMemory& m = a.memory;
  add_line(
      page, "memory of a GPU",
      fmt::format("{} weights, {} activations and buffers, {} cache of {}", size_text(m.weights),
                  size_text(m.activations + m.graphs + m.context + m.buffers),
                  m.cache > Bytes(0) ? size_text(m.cache) : "no", size_text(m.board)));
  add_line(
      page, "cache",
      fmt::format("{} tokens a replica", short_count(static_cast<double>(a.replica_cache_tokens))));
  return page;
}

}  // namespace

std::optional<double> cost_per_million(const ServeQuestion& q, const ServingReport& a) {
  if (!q.price_per_hour || !(a.tokens_per_s > 0)) return std::nullopt;
  return *q.price_per_hour * static_cast<double>(a.gpus) / 3600 / a.tokens_per_s * 1e6;
}

std::string serve_text(const ServeQuestion& q, const ServingReport& a) {
  std::string page;
  if (q.measured) add_measured(page, *q.measured);
  page += heading(q, a);
  if (!a.fits) {
    add_line(page, "fits", "no; " + a.change + " would");
    for (const std::string& line : a.assumptions) add_line(page, "assumed", line);
    return page;
  }
  if (q.found_rate)
    add_line(page, "bears", fmt::format("{} requests/s", three_digits(*q.found_rate)));
  page += fmt::format("\n  {:<16}{:>8}{:>8}{:>8}{:>8}  {}\n", "ms", "mean", "p50", "p90", "p99",
                      "90 % of mean");
  add_latency(page, "to first token", a.ttft_ms);
  add_latency(page, "per output token", a.tpot_ms);
  if (!q.load.batch) add_latency(page, "between tokens", a.itl_ms);
  add_latency(page, "end to end", a.e2e_ms);
  if (!q.load.batch) add_latency(page, "of it queued", a.queue_ms);
  page += "\n";
  add_line(
      page, "tokens/s",
      fmt::format("{} in all, {} a GPU, {} a user", three_digits(a.tokens_per_s),
                  three_digits(a.tokens_per_s_per_gpu), three_digits(a.tokens_per_s_per_user)));
  add_line(page, "busy",
           fmt::format("{} of the time; {} of the arithmetic's peak", percent(a.utilization),
                       percent(a.mfu)));
  if (!q.load.batch)
    add_line(page, "cache use",
             fmt::format("{} of its pages while busy; {} preemption{}{}", percent(a.cache_use),
                         a.preemptions, a.preemptions == 1 ? "" : "s",
                         a.swapped > 0 ? fmt::format(", {} of them swapped", a.swapped) : ""));
  add_line(page, "power",
           fmt::format("{} W a GPU, {} J a token", three_digits(a.power_w),
                       three_digits(a.energy_j_per_token)));
  if (const auto cost = cost_per_million(q, a))
    add_line(page, "cost", fmt::format("{} USD per million output tokens", three_digits(*cost)));
  std::string shares;
  for (const auto& [part, share] : a.shares)
    if (share >= 0.005)
      shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", part, percent(share));
  add_line(page, "time goes to", shares);
  add_line(page, "limited by", a.limited_by);
  if (a.overloaded_at)
    add_line(page, "overloaded",
             fmt::format("at most {} requests/s are completed: times are those of the first {} "
                         "requests and grow for as long as more come",
                         three_digits(*a.overloaded_at), q.load.requests));
  if (a.guessed_share > 0)
    add_line(page, "no cost model", percent(a.guessed_share) + " of the time: a bound by bytes");
  if (a.turned_away > 0)
    add_line(page, "turned away", fmt::format("{} requests longer than the cache", a.turned_away));
  for (const std::string& line : a.assumptions) add_line(page, "assumed", line);
  return page;
}

std::string serve_json(const ServeQuestion& q, const ServingReport& a) {
  Json doc = envelope(q, a);
  if (q.measured) doc["measured"] = measured_json(*q.measured);
  doc.update(common_json(q, a));
  return json_text(doc) + "\n";
}

std::string serve_csv(const ServeQuestion& q, const ServingReport& a) {
  std::string out =
      "network,gpu,gpus,tp,pp,dp,ep,engine,load,fits,kv_tokens,metric,mean,low,high,p50,p90,p99\n";
  const auto row = [&](std::string_view metric, const ServedLatency& l) {
    out += csv_line(a.network, a.gpu, a.gpus, a.tensor, a.pipeline, a.data, a.experts, a.engine,
                    load_words(q.load), a.fits ? 1 : 0, a.replica_cache_tokens, metric,
                    l.mean.interval.value, l.mean.interval.low, l.mean.interval.high,
                    l.p50.interval.value, l.p90.interval.value, l.p99.interval.value);
  };
  row("ttft_ms", a.ttft_ms);
  row("tpot_ms", a.tpot_ms);
  row("itl_ms", a.itl_ms);
  row("e2e_ms", a.e2e_ms);
  return out;
}

void mark_front(std::vector<FrontPoint>& points) {
  for (FrontPoint& p : points) {
    p.is_best =
        p.report.fits && std::none_of(points.begin(), points.end(), [&](const FrontPoint& o) {
          const ServingReport &a = p.report, &b = o.report;
          return b.fits && b.tokens_per_s_per_gpu >= a.tokens_per_s_per_gpu &&
                 b.tokens_per_s_per_user >= a.tokens_per_s_per_user &&
                 (b.tokens_per_s_per_gpu > a.tokens_per_s_per_gpu ||
                  b.tokens_per_s_per_user > a.tokens_per_s_per_user);
        });
  }
}

std::string front_text(const ServeQuestion& q, const std::vector<FrontPoint>& points) {
  std::string page =
      fmt::format("{}: tokens/s a GPU against tokens/s a user; * no other is better in both\n\n",
                  q.job.network);
  page += fmt::format("    {:>4} {:>4} {:>9} {:>11} {:>11} {:>10} {:>10}\n", "gpus", "tp",
                      "in flight", "a GPU", "a user", "ttft ms", "tpot ms");
  for (const FrontPoint& p : points) {
    if (!p.report.fits) {
      page += fmt::format("    {:>4} {:>4} {:>9} does not fit\n", p.gpus, p.tensor, p.load);
      continue;
    }
    page +=
        fmt::format("  {} {:>4} {:>4} {:>9} {:>11} {:>11} {:>10} {:>10}\n", p.is_best ? '*' : ' ',
                    p.gpus, p.tensor, p.load, three_digits(p.report.tokens_per_s_per_gpu),
                    three_digits(p.report.tokens_per_s_per_user),
                    three_digits(p.report.ttft_ms.mean.interval.value),
                    three_digits(p.report.tpot_ms.mean.interval.value));
  }
  return page;
}

std::string front_json(const ServeQuestion& q, const std::vector<FrontPoint>& points) {
  Json doc{{"schema", fmt::format("tracecast.serve_front/{}", kSchema)},
           {"version", kVersion},
           {"network", q.job.network},
           {"seed", q.load.seed},
           {"points", Json::array()}};
  for (const FrontPoint& p : points) {
    Json point{
        {"gpus", p.gpus}, {"tp", p.tensor}, {"concurrency", p.load}, {"fits", p.report.fits}};
    if (p.report.fits) {
      point["best"] = p.is_best;
      point["tokens_per_s_per_gpu"] = p.report.tokens_per_s_per_gpu;
      point["tokens_per_s_per_user"] = p.report.tokens_per_s_per_user;
      point["ttft_ms"] = interval_json(p.report.ttft_ms.mean.interval);
      point["tpot_ms"] = interval_json(p.report.tpot_ms.mean.interval);
    }
    doc["points"].push_back(std::move(point));
  }
  return json_text(doc) + "\n";
}

std::string front_csv(const std::vector<FrontPoint>& points) {
  std::string out =
      "gpus,tp,concurrency,fits,best,tokens_per_s_per_gpu,tokens_per_s_per_user,ttft_ms,tpot_ms\n";
  for (const FrontPoint& p : points)
    out += csv_line(p.gpus, p.tensor, p.load, p.report.fits ? 1 : 0, p.is_best ? 1 : 0,
                    p.report.tokens_per_s_per_gpu, p.report.tokens_per_s_per_user,
                    p.report.ttft_ms.mean.interval.value, p.report.tpot_ms.mean.interval.value);
  return out;
}

void write_requests_csv(const std::string& path, const ServingReport& a) {
  std::string out =
      "request,arrival_s,input_tokens,output_tokens,queue_ms,ttft_ms,tpot_ms,e2e_ms,preemptions\n";
  std::vector<serve::Request> rows = a.served;
  std::sort(rows.begin(), rows.end(),
            [](const serve::Request& x, const serve::Request& y) { return x.number < y.number; });
  for (const serve::Request& r : rows) {
    const std::int64_t first = r.first.value_or(r.last);
    const double tokens = static_cast<double>(std::max<std::int64_t>(1, r.output - 1));
    out += csv_line(r.number, static_cast<double>(r.arrival) * 1e-6, r.input, r.output,
                    static_cast<double>(r.start.value_or(first) - r.arrival) * 1e-3,
                    static_cast<double>(first - r.arrival) * 1e-3,
                    static_cast<double>(r.last - first) * 1e-3 / tokens,
                    static_cast<double>(r.last - r.arrival) * 1e-3, r.preemptions);
  }
  NewFile file(path);
  file.write(out);
  file.put_in_place();
}

}  // namespace tracecast
