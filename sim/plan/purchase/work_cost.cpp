#include "sim/plan/purchase/work_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

constexpr double kHour = 3600, kJoulesPerKwh = 3.6e6;
constexpr std::int64_t kMostGpusTried = 16384;

Interval scaled(const Interval& interval, double factor) {
  return {interval.value * factor, interval.low * factor, interval.high * factor};
}

/// The job on that many GPUs; nothing where that cannot be asked for.
class Counts {
 public:
  Counts(const Predictor& predictor, const Job& job, const Place& place,
         const Parallelism& parallelism)
      : predictor_(predictor), job_(job), place_(place), parallelism_(parallelism) {}

  const std::optional<Forecast>& on(std::int64_t gpus) {
    const auto [at, is_new] = known_.try_emplace(gpus);
    if (!is_new) return at->second;
    Place place = place_;
    place.gpus = gpus;
    place.nodes.reset();
    try {
      at->second = predictor_.predict(job_, place, parallelism_);
    } catch (const InputError& error) {
      refused_ = error.what();
    }
    return at->second;
  }
  [[nodiscard]] const std::string& refused() const { return refused_; }

 private:
  const Predictor& predictor_;
  const Job& job_;
  const Place& place_;
  const Parallelism& parallelism_;
  std::map<std::int64_t, std::optional<Forecast>> known_;
  std::string refused_;
};

/// The smallest count that passes, if `most` does and `least` does not: between a power of two and
/// the next in eighths, as clusters grow by machines.
template <class Passes>
std::int64_t between(std::int64_t least, std::int64_t most, const Passes& passes) {
  const std::int64_t step = std::max<std::int64_t>(1, most / 16);
  while (most - least > step) {
    const std::int64_t middle = least + (most - least) / 2 / step * step;
    if (middle == least) break;
    (passes(middle) ? most : least) = middle;
  }
  return most;
}

}  // namespace

std::string_view to_string(Work::Unit unit) {
  return unit == Work::Unit::Samples ? "samples" : unit == Work::Unit::Tokens ? "tokens" : "epochs";
}

double samples_of(const Work& work, const Forecast& forecast, std::optional<std::int64_t> tokens,
                  std::optional<std::int64_t> epoch_samples) {
  switch (work.unit) {
    case Work::Unit::Samples:
      return work.amount;
    case Work::Unit::Tokens:
      if (forecast.throughput_tokens_per_s)
        return work.amount * forecast.throughput_samples_per_s.value /
               forecast.throughput_tokens_per_s->value;
      if (!tokens)
        throw InputError("--tokens", forecast.network + ", whose samples have no known tokens",
                         "--seq-len L or --samples N");
      return work.amount / static_cast<double>(*tokens);
    case Work::Unit::Epochs:
      break;
  }
  if (!epoch_samples)
    throw InputError("--epochs", "no number of samples of an epoch",
                     "--epoch-samples N or --data with a data set");
  return work.amount * static_cast<double>(*epoch_samples);
}

std::optional<Interval> WorkCost::cost_usd() const {
  if (!rented_usd || !owned_usd) return rented_usd ? rented_usd : owned_usd;
  return rented_usd->value < owned_usd->value ? rented_usd : owned_usd;
}

WorkCost work_cost(const Work& work, double samples, const Forecast& forecast,
                   const Catalogue& catalogue) {
  const Interval& rate = forecast.throughput_samples_per_s;
  WorkCost cost{.work = work,
                .samples = samples,
                .time_s = {samples / rate.value, samples / rate.high, samples / rate.low},
                .energy_kwh = {},
                .hour = hour_price(catalogue, forecast.gpu),
                .rented_usd = {},
                .owned_usd = {}};
  const double per_s = static_cast<double>(forecast.gpus) / kHour;
  if (forecast.power) {
    const double kwh = samples * forecast.power->energy_per_sample.in_j() / kJoulesPerKwh;
    cost.energy_kwh = scaled(cost.time_s, kwh / cost.time_s.value);
  }
  if (cost.hour.rented_usd) cost.rented_usd = scaled(cost.time_s, per_s * *cost.hour.rented_usd);
  if (cost.hour.owned_usd) {
    const double energy_usd =
        cost.energy_kwh ? cost.energy_kwh->value * catalogue.pue * catalogue.energy_usd_per_kwh : 0;
    cost.owned_usd =
        scaled(cost.time_s, per_s * *cost.hour.owned_usd + energy_usd / cost.time_s.value);
  }
  return cost;
}

std::optional<GpusWithin> gpus_within(Seconds within, const Work& work, double samples,
                                      const Predictor& predictor, const Job& job,
                                      const Place& place, const Parallelism& parallelism,
                                      const Catalogue& catalogue) {
  Counts counts(predictor, job, place, parallelism);
  const auto time_of = [&](std::int64_t gpus) -> std::optional<Interval> {
    const std::optional<Forecast>& forecast = counts.on(gpus);
    if (!forecast || !forecast->fits()) return std::nullopt;
    const Interval& rate = forecast->throughput_samples_per_s;
    return Interval{samples / rate.value, samples / rate.high, samples / rate.low};
  };
  const auto likely = [&](std::int64_t gpus) {
    const auto time = time_of(gpus);
    return time && time->value <= within.in_s();
  };
  const auto surely = [&](std::int64_t gpus) {
    const auto time = time_of(gpus);
    return time && time->high <= within.in_s();
  };
  GpusWithin result{.within = within, .gpus = 0, .surely_gpus = 0, .time_s = {}, .cost_usd = {}};
  std::optional<double> before;
  bool any = false;
  for (std::int64_t n = 1; n <= kMostGpusTried && result.surely_gpus == 0; n *= 2) {
    const auto time = time_of(n);
    any = any || counts.on(n).has_value();
    if (!time) {
      if (before) break;  // it ran on fewer: more than its batch or its layers divide into
      continue;
    }
    if (before && time->value > 0.98 * *before) break;  // more are no faster
    before = time->value;
    if (result.gpus == 0 && likely(n)) result.gpus = n == 1 ? 1 : between(n / 2, n, likely);
    if (surely(n)) result.surely_gpus = n == 1 ? 1 : between(n / 2, n, surely);
  }
  if (!any)
    throw InputError("--within", counts.refused(), "a job that runs on some number of GPUs");
  if (result.gpus == 0) return std::nullopt;
  result.time_s = *time_of(result.gpus);
  result.cost_usd = work_cost(work, samples, *counts.on(result.gpus), catalogue).cost_usd();
  return result;
}

}  // namespace tracecast::plan
