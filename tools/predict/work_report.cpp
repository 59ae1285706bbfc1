#include "tools/predict/work_report.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

plan::Work work_of(const WorkOptions& options) {
  using Unit = plan::Work::Unit;
  if (options.tokens) return {*options.tokens, Unit::Tokens};
  if (options.epochs) return {*options.epochs, Unit::Epochs};
  return {*options.samples, Unit::Samples};
}

/// `--price h100=2.5`: what an hour of one GPU costs, in place of the program's rents of it.
void set_price(const std::string& text, const GpuCatalog& gpus, plan::Catalogue& catalogue) {
  const std::size_t sign = text.find('=');
  const double usd = sign == std::string::npos
                         ? -1
                         : parse_double(std::string_view(text).substr(sign + 1)).value_or(-1);
  if (!(usd >= 0 && usd <= 1e6))
    throw InputError("--price", '"' + text + '"', "GPU=USD of an hour of one GPU: h100=2.50");
  const std::string id = gpus.find(text.substr(0, sign)).id;
  std::erase_if(catalogue.offers, [&](const plan::Offer& offer) {
    return offer.gpu == id && offer.tenure == plan::Tenure::Rented;
  });
  plan::Offer offer;
  offer.id = "--price";
  offer.gpu = id;
  offer.tenure = plan::Tenure::Rented;
  offer.usd_per_hour = usd;
  catalogue.offers.push_back(std::move(offer));
}

/// Nothing where the network reads no sequences, or a file does not say how long they are.
std::optional<std::int64_t> tokens_of_sample(const Job& job) {
  if (job.seq_len) return job.seq_len;
  if (is_network_path(job.network)) return std::nullopt;
  const ZooEntry* const entry = find_network(job.network);
  return entry != nullptr && entry->seq_len > 0 ? std::optional(entry->seq_len) : std::nullopt;
}

std::string duration(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < kMinute) return fmt::format("{} s", three_digits(seconds));
  if (seconds < 2 * kHour) return fmt::format("{} min", three_digits(seconds / kMinute));
  if (seconds < 2 * kDay) return fmt::format("{} hours", three_digits(seconds / kHour));
  return fmt::format("{} days", three_digits(seconds / kDay));
}

std::string money(double usd) {
  return usd < 1000 ? three_digits(usd) : fmt::format("{:.0f}", usd);
}

std::string usd_text(const Interval& usd) {
  return fmt::format("{} USD    (90 % interval: {} to {})", money(usd.value), money(usd.low),
                     money(usd.high));
}

std::string count_text(double value) {
  return value < 1e6 ? low_precision(value, 9) : short_count(value);
}

}  // namespace

void add_work_options(CLI::App& app, WorkOptions& options) {
  const auto amount = [&](const char* flag, std::optional<double>& value, const char* help) {
    return app.add_option(flag, value, help)->type_name("N")->check(CLI::Range(1e-9, 1e18));
  };
  CLI::Option* tokens = amount("--tokens", options.tokens,
                               "Work in tokens: its time, energy and money are reported, too");
  CLI::Option* samples = amount("--samples", options.samples, "Work in samples");
  CLI::Option* epochs =
      amount("--epochs", options.epochs, "Work in epochs (--epoch-samples, or those of --data)");
  tokens->excludes(samples)->excludes(epochs);
  samples->excludes(epochs);
  app.add_option("--within", options.within,
                 "How many GPUs do that work in this time: 36h, 60d, 8w")
      ->type_name("TIME");
  app.add_option("--price", options.prices,
                 "What an hour of one such GPU costs; default: dated prices in the program")
      ->type_name("GPU=USD");
  app.add_option("--kwh-price", options.kwh_price, "What a kWh costs, USD")
      ->type_name("USD")
      ->check(CLI::Range(0.0, 1e4));
}

void check_work(const WorkOptions& options) {
  if (options.is_asked()) return;
  const char* flag = !options.within.empty()   ? "--within"
                     : !options.prices.empty() ? "--price"
                     : options.kwh_price       ? "--kwh-price"
                                               : nullptr;
  if (flag != nullptr)
    throw InputError(flag, "no amount of work", "--tokens N, --samples N or --epochs N beside it");
}

void refuse_work(const WorkOptions& options) {
  if (options.is_asked())
    throw InputError("--tokens, --samples or --epochs", "an amount of work",
                     "a job alone: the command `predict` tells what work takes");
  check_work(options);
}

WorkReport report_work(const WorkOptions& options, const Predictor& predictor, const Job& job,
                       const Place& place, const Parallelism& parallelism,
                       const Forecast& forecast) {
  const GpuCatalog& gpus = predictor.hardware().gpus();
  plan::Catalogue catalogue = plan::embedded_catalogue(gpus, plan::Priced::MachinesAndCards);
  for (const std::string& price : options.prices) set_price(price, gpus, catalogue);
  if (options.kwh_price) catalogue.energy_usd_per_kwh = *options.kwh_price;
  std::optional<std::int64_t> epoch = job.epoch_samples;
  if (options.epochs && !epoch) epoch = epoch_samples(predictor.resolve(job, place));
  const plan::Work work = work_of(options);
  const double samples = plan::samples_of(work, forecast, tokens_of_sample(job), epoch);
  WorkReport report{.cost = plan::work_cost(work, samples, forecast, catalogue),
                    .gpus = forecast.gpus,
                    .prices = fmt::format("{}, {}", catalogue.name, catalogue.date),
                    .within = {},
                    .gpus_within = {}};
  if (!options.within.empty()) {
    report.within = parse_time("--within", options.within);
    report.gpus_within = plan::gpus_within(*report.within, work, samples, predictor, job, place,
                                           parallelism, catalogue);
  }
  return report;
}

std::string work_text(const WorkReport& report) {
  const plan::WorkCost& c = report.cost;
  std::string page = "\n";
  add_line(page, "Work",
           fmt::format("{} {}{}", count_text(c.work.amount), to_string(c.work.unit),
                       c.work.unit == plan::Work::Unit::Samples
                           ? ""
                           : fmt::format(", {} samples", count_text(c.samples))));
  add_line(page, "Takes",
           fmt::format("{}    (90 % interval: {} to {})", duration(c.time_s.value),
                       duration(c.time_s.low), duration(c.time_s.high)));
  if (c.energy_kwh)
    add_line(page, "Energy",
             fmt::format("{} kWh, boards alone", three_digits(c.energy_kwh->value)));
  if (c.rented_usd)
    add_line(page, "Rented",
             fmt::format("{}, {} USD an hour and GPU ({})", usd_text(*c.rented_usd),
                         three_digits(*c.hour.rented_usd), c.hour.rented_offer));
  if (c.owned_usd)
    add_line(page, "Owned",
             fmt::format("{}, {} USD an hour and GPU ({})", usd_text(*c.owned_usd),
                         three_digits(*c.hour.owned_usd), c.hour.owned_offer));
  if (!c.rented_usd && !c.owned_usd)
    add_line(page, "Money", "no price of this GPU is known: --price GPU=USD");
  if (report.within) {
    const auto& w = report.gpus_within;
    const std::string limit = duration(report.within->in_s());
    if (!w) {
      add_line(page, "In time",
               fmt::format("no number of GPUs that was tried does it within {}", limit));
    } else {
      add_line(page, "In time",
               fmt::format("{} GPU{} likely do it within {} ({} to {})", w->gpus,
                           w->gpus == 1 ? "" : "s", limit, duration(w->time_s.low),
                           duration(w->time_s.high)));
      add_line(page, "",
               w->surely_gpus > 0
                   ? fmt::format("{} in 95 cases of 100", w->surely_gpus)
                   : std::string("no number that was tried does in 95 cases of 100"));
      if (w->cost_usd) add_line(page, "", usd_text(*w->cost_usd));
    }
  }
  add_line(page, "Prices", report.prices);
  return page;
}

std::string with_work(const std::string& forecast_json, const WorkReport& report) {
  auto doc = Json::parse(forecast_json);
  const plan::WorkCost& c = report.cost;
  const auto interval = [](const std::optional<Interval>& value) {
    return value ? interval_json(*value) : Json();
  };
  const auto offer = [&](const std::optional<double>& hour, std::string_view id,
                         const std::optional<Interval>& usd) {
    return usd ? Json{{"offer", id}, {"usd_per_gpu_hour", *hour}, {"cost_usd", interval_json(*usd)}}
               : Json();
  };
  doc["work"] = {{"amount", c.work.amount},
                 {"unit", to_string(c.work.unit)},
                 {"samples", c.samples},
                 {"time_s", interval_json(c.time_s)},
                 {"energy_kwh", interval(c.energy_kwh)},
                 {"cost_usd", interval(c.cost_usd())},
                 {"rented", offer(c.hour.rented_usd, c.hour.rented_offer, c.rented_usd)},
                 {"owned", offer(c.hour.owned_usd, c.hour.owned_offer, c.owned_usd)},
                 {"prices", report.prices}};
  if (report.within) {
    const auto& w = report.gpus_within;
    doc["work"]["within"] = {
        {"within_s", report.within->in_s()},
        {"gpus", w ? Json(w->gpus) : Json()},
        {"surely_gpus", w && w->surely_gpus > 0 ? Json(w->surely_gpus) : Json()},
        {"time_s", w ? interval_json(w->time_s) : Json()},
        {"cost_usd", w ? interval(w->cost_usd) : Json()}};
  }
  return json_text(doc) + "\n";
}

std::string csv_with_work(const std::string& forecast_csv, const WorkReport& report) {
  const plan::WorkCost& c = report.cost;
  const auto value = [](const std::optional<Interval>& interval) {
    return interval ? std::optional(interval->value) : std::nullopt;
  };
  const std::string heads =
      ",work_time_s,work_energy_kwh,work_rented_usd,work_owned_usd,work_gpus_within\n";
  const auto& within = report.gpus_within;
  const std::string cells =
      ',' + csv_line(c.time_s.value, value(c.energy_kwh), value(c.rented_usd), value(c.owned_usd),
                     within ? std::optional(static_cast<double>(within->gpus)) : std::nullopt);
  const std::size_t head_end = forecast_csv.find('\n');
  TRACECAST_CHECK(head_end != std::string::npos, "CSV has a line of names and one of figures");
  const std::string rest = forecast_csv.substr(head_end + 1);
  return forecast_csv.substr(0, head_end) + heads + rest.substr(0, rest.find('\n')) + cells;
}

}  // namespace tracecast
