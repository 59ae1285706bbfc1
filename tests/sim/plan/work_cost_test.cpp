#include "sim/plan/purchase/work_cost.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

TEST_SUITE_BEGIN("plan/work_cost");

/// 200 samples/s on 4 GPUs of a board that is rented for 2 USD an hour, or owned.
Forecast forecast_of(double samples_per_s) {
  Forecast forecast;
  forecast.network = "net";
  forecast.gpu = "board";
  forecast.gpus = 4;
  forecast.throughput_samples_per_s = {samples_per_s, samples_per_s / 2, samples_per_s * 2};
  forecast.power = ForecastPower{};
  forecast.power->energy_per_sample = Joules(9);
  return forecast;
}

Catalogue catalogue_of() {
  Catalogue catalogue;
  catalogue.energy_usd_per_kwh = 0.5;
  catalogue.pue = 2;
  Offer rented;
  rented.id = "rent";
  rented.gpu = "board";
  rented.tenure = Tenure::Rented;
  rented.usd_per_hour = 2;
  Offer bought;
  bought.id = "own";
  bought.gpu = "board";
  bought.price_usd = 4 * 8760;  // over four years: one dollar an hour
  catalogue.offers = {rented, bought};
  return catalogue;
}

TEST_CASE("time, energy and money of an amount of work are what a hand counts") {
  const Work work{720'000, Work::Unit::Samples};
  const Forecast forecast = forecast_of(200);
  const double samples = samples_of(work, forecast, std::nullopt, std::nullopt);
  CHECK(samples == 720'000);
  const WorkCost cost = work_cost(work, samples, forecast, catalogue_of());
  CHECK(cost.time_s.value == 3600);
  CHECK(cost.time_s.low == 1800);   // twice the rate
  CHECK(cost.time_s.high == 7200);  // half of it
  REQUIRE(cost.energy_kwh);
  CHECK(std::abs(cost.energy_kwh->value - 1.8) < 1e-12);  // 720,000 * 9 J
  REQUIRE(cost.rented_usd);
  CHECK(std::abs(cost.rented_usd->value - 8) < 1e-9);  // 4 GPUs, an hour
  CHECK(std::abs(cost.rented_usd->high - 16) < 1e-9);
  REQUIRE(cost.owned_usd);
  CHECK(std::abs(cost.owned_usd->value - (4 + 1.8 * 2 * 0.5)) < 1e-9);
  CHECK(cost.cost_usd()->value == cost.owned_usd->value);
}

TEST_CASE("tokens and epochs become samples, or the flag that lacks is named") {
  const Forecast forecast = forecast_of(200);
  CHECK(samples_of({1e6, Work::Unit::Tokens}, forecast, 500, std::nullopt) == 2000);
  CHECK(samples_of({3, Work::Unit::Epochs}, forecast, std::nullopt, 1000) == 3000);
  CHECK_THROWS_AS((void)samples_of({1e6, Work::Unit::Tokens}, forecast, std::nullopt, 7),
                  InputError);
  CHECK_THROWS_AS((void)samples_of({3, Work::Unit::Epochs}, forecast, 500, std::nullopt),
                  InputError);
  Forecast reported = forecast;
  reported.throughput_tokens_per_s = Interval{400, 200, 800};  // two tokens a sample
  CHECK(samples_of({1e6, Work::Unit::Tokens}, reported, 500, std::nullopt) == 5e5);
}

TEST_CASE("the count of GPUs that is told is in time, and the next smaller one is not") {
  const Predictor predictor(Hardware::embedded());
  Job job;
  job.network = "resnet50";
  job.batch = 64;
  Place place;
  place.gpu = "v100";
  const Work work{5e8, Work::Unit::Samples};
  const auto hours_on = [&](std::int64_t gpus) {
    Place there = place;
    there.gpus = gpus;
    return 5e8 / predictor.predict(job, there, Usual{}).throughput_samples_per_s.value / 3600;
  };
  const Seconds within(60 * 3600);
  const auto found = gpus_within(within, work, 5e8, predictor, job, place, Usual{}, catalogue_of());
  REQUIRE(found);
  CHECK(found->gpus > 1);
  CHECK(hours_on(found->gpus) <= 60);
  CHECK(hours_on(found->gpus - 1) > 60);
  CHECK(found->surely_gpus >= found->gpus);
  CHECK_FALSE(gpus_within(Seconds(1), work, 5e8, predictor, job, place, Usual{}, catalogue_of()));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::plan
