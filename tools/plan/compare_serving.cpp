#include "tools/plan/compare_serving.hpp"
#include "tools/command/cell.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/plan/purchase/hour_price.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kMillion = 1e6;

void add_money(ServingRow& row, const ServingComparison& asked, const plan::Catalogue& catalogue) {
  const plan::HourPrice hour = plan::hour_price(catalogue, row.gpu);
  const double gpus = static_cast<double>(asked.gpus);
  const double hours = gpus * kMillion / row.tokens_per_s.value / 3600;  // of GPUs
  const double energy_usd =
      row.power_w / gpus / 1000 * catalogue.pue * catalogue.energy_usd_per_kwh;
  if (hour.owned_usd) row.owned_usd = hours * (*hour.owned_usd + energy_usd);
  if (hour.rented_usd) row.rented_usd = hours * *hour.rented_usd;
}

/// Tokens/s move with a token's time where requests are in flight, and with the rate where one is
/// found.
Interval tokens_of(const ServingReport& a, const std::optional<Interval>& rate) {
  if (rate) {
    return {a.tokens_per_s, a.tokens_per_s * rate->low / rate->value,
            a.tokens_per_s * rate->high / rate->value};
  }
  const Interval& whole = a.e2e_ms.mean.interval;
  return {a.tokens_per_s, a.tokens_per_s * whole.value / whole.high,
          a.tokens_per_s * whole.value / whole.low};
}

void fill(ServingRow& row, const ServingReport& a, const std::optional<Interval>& rate) {
  if (!a.fits) {
    row.refused = "does not fit; " + a.change + " would";
    return;
  }
  row.tokens_per_s = tokens_of(a, rate);
  row.ttft_ms = a.ttft_ms.mean.interval;
  row.tpot_ms = a.tpot_ms.mean.interval;
  row.power_w = a.power_w * static_cast<double>(a.gpus);
}

void add_rows(std::vector<ServingRow>& rows, const ServingComparison& asked, const std::string& gpu,
              const Hardware& hardware, const plan::Catalogue& catalogue) {
  Place place = asked.place;
  place.gpu = gpu;
  place.gpus = asked.gpus;
  Served served(asked.job, place, hardware);
  ServingLoad load;
  load.input = asked.input;
  load.output = asked.output;
  const auto add = [&](const ServingReport& a, std::int64_t in_flight,
                       const std::optional<Interval>& rate) {
    ServingRow row;
    row.gpu = gpu;
    row.in_flight = in_flight;
    row.cache_tokens = a.replica_cache_tokens;
    if (rate) row.rate = rate->value;
    if (a.fits && rate && !(rate->value > 0))
      row.refused = "no load keeps to the limits";
    else
      fill(row, a, rate);
    if (row.refused.empty()) add_money(row, asked, catalogue);
    rows.push_back(std::move(row));
  };
  if (asked.in_flight.empty()) {
    const Served::Found found = served.find_rate(load, asked.ttft_ms, asked.tpot_ms);
    const bool is_borne = found.report.fits && found.per_second > 0;
    add(found.report, 0,
        is_borne ? served.rate_interval(load, asked.ttft_ms, asked.tpot_ms, found)
                 : Interval{found.per_second, found.per_second, found.per_second});
    return;
  }
  for (const std::int64_t in_flight : asked.in_flight) {
    load.concurrency = in_flight;
    load.requests = steady_requests(in_flight);
    add(served.report(load), in_flight, std::nullopt);
  }
}

std::string if_known(const std::optional<double>& value) {
  return value ? low_precision(*value, 7) : std::string("-");
}

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::vector<ServingRow> compare_serving(const ServingComparison& asked,
                                        const std::vector<std::string>& gpus,
                                        const Hardware& hardware,
                                        const plan::Catalogue& catalogue) {
  std::vector<ServingRow> rows;
  for (const std::string& word : gpus)
    add_rows(rows, asked, hardware.gpus().find(word).id, hardware, catalogue);
  return rows;
}

std::string serving_rows_text(const ServingComparison& asked, const std::vector<ServingRow>& rows,
                              const std::string& prices) {
  std::string page;
  add_line(page, "Network", asked.job.network + ", " + asked.job.precision);
  add_line(page, "GPUs", fmt::format("{} of each kind", asked.gpus));
  add_line(page, "Load", fmt::format("{} tokens in, {} out", asked.input, asked.output));
  add_line(page, "Money", "USD per million tokens of answers; " + prices);
  page += fmt::format("\n{:<16} {:>8} {:>7} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6}\n", "gpu",
                      asked.in_flight.empty() ? "rate/s" : "flight", "tok/s", "ttft ms", "tpot ms",
                      "+-", "W", "own", "rent");
  for (const ServingRow& row : rows) {
    const std::string load = row.rate ? low_precision(*row.rate, 8) : std::to_string(row.in_flight);
    if (!row.refused.empty()) {
      page += fit(row.gpu, 16) + fmt::format(" {:>8}  ", load) + last_cell(row.refused, 27) + '\n';
      continue;
    }
    page += fmt::format("{} {:>8} {:>7} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6}\n", fit(row.gpu, 16),
                        load, low_precision(row.tokens_per_s.value, 7),
                        low_precision(row.ttft_ms.value, 7), low_precision(row.tpot_ms.value, 7),
                        percent((row.tpot_ms.high - row.tpot_ms.low) / 2 / row.tpot_ms.value),
                        low_precision(row.power_w, 6), if_known(row.owned_usd),
                        if_known(row.rented_usd));
  }
  return page;
}

std::string serving_rows_json(const ServingComparison& asked, const std::vector<ServingRow>& rows,
                              const plan::Catalogue& catalogue, bool is_embedded) {
  Json doc{
      {"schema", fmt::format("tracecast.compare_serving/{}", kSchema)},
      {"version", kVersion},
      {"network", asked.job.network},
      {"precision", asked.job.precision},
      {"engine", asked.job.engine},
      {"gpus", asked.gpus},
      {"input", asked.input},
      {"output", asked.output},
      {"catalogue", {{"id", catalogue.id}, {"date", catalogue.date}, {"is_embedded", is_embedded}}},
      {"rows", Json::array()}};
  for (const ServingRow& row : rows) {
    const bool known = row.refused.empty();
    doc["rows"].push_back({{"gpu", row.gpu},
                           {"in_flight", row.in_flight > 0 ? Json(row.in_flight) : Json()},
                           {"requests_per_s", number(row.rate)},
                           {"tokens_per_s", known ? interval_json(row.tokens_per_s) : Json()},
                           {"ttft_ms", known ? interval_json(row.ttft_ms) : Json()},
                           {"tpot_ms", known ? interval_json(row.tpot_ms) : Json()},
                           {"power_w", known ? Json(row.power_w) : Json()},
                           {"kv_tokens", row.cache_tokens},
                           {"owned_usd_per_million_tokens", number(row.owned_usd)},
                           {"rented_usd_per_million_tokens", number(row.rented_usd)},
                           {"refused", known ? Json() : Json(row.refused)}});
  }
  return json_text(doc) + "\n";
}

std::string serving_rows_csv(const std::vector<ServingRow>& rows) {
  std::string text =
      "gpu,in_flight,requests_per_s,tokens_per_s,ttft_ms,tpot_ms,tpot_low_ms,tpot_high_ms,power_w,"
      "owned_usd_per_million_tokens,rented_usd_per_million_tokens\n";
  for (const ServingRow& row : rows) {
    const std::string in_flight = row.in_flight > 0 ? std::to_string(row.in_flight) : "";
    if (!row.refused.empty()) {
      text += csv_line(row.gpu, in_flight, row.rate, "", "", "", "", "", "", "", "");
      continue;
    }
    text += csv_line(row.gpu, in_flight, row.rate, row.tokens_per_s.value, row.ttft_ms.value,
                     row.tpot_ms.value, row.tpot_ms.low, row.tpot_ms.high, row.power_w,
                     row.owned_usd, row.rented_usd);
  }
  return text;
}

}  // namespace tracecast
