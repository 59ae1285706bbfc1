#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/plan/purchase/purchase.hpp"

namespace tracecast::plan::test {

struct RandomPurchaseSize {
  std::size_t types = 3, jobs = 4;
  int most = 3;        ///< machines of a type
  double hours = 200;  ///< of a job on the slowest GPU, at most
  double deadline_h = 300;
};

/// Machine types of rising speed, price and power; jobs that gain more or less from speed.
inline PurchaseProblem random_purchase(std::uint64_t seed, const RandomPurchaseSize& size) {
  Random random(seed);
  PurchaseProblem problem;
  std::vector<double> speed;
  for (std::size_t o = 0; o < size.types; ++o) {
    Offer offer;
    offer.id = "type" + std::to_string(o);
    offer.gpus = 1 << static_cast<int>(random.uniform() * 4);
    speed.push_back(1 + 7 * random.uniform());
    offer.price_usd =
        std::round(offer.gpus * 3000 * std::pow(speed[o], 1.1) * (0.7 + 0.6 * random.uniform()));
    offer.load = Watts(std::round(offer.gpus * (100 + 80 * speed[o])));
    offer.idle = Watts(std::round(offer.load.in_w() * 0.3));
    offer.rack_units = 1 + static_cast<int>(offer.gpus * random.uniform());
    offer.most = size.most;
    if (o % 4 == 3) {
      offer.tenure = Tenure::Rented;
      offer.usd_per_hour = offer.price_usd / 1200;
      offer.most = 2 * size.most;
    }
    problem.offers.push_back(offer);
  }
  problem.costs.energy_usd_per_kwh = 0.15;
  problem.costs.pue = 1.3;
  problem.costs.rack_unit_usd_per_month = 25;
  for (std::size_t j = 0; j < size.jobs; ++j) {
    problem.jobs.emplace_back();
    const double hours = size.hours * (0.1 + 0.9 * random.uniform()),
                 gain = 0.5 + 0.6 * random.uniform();
    const int gang = 1 << static_cast<int>(random.uniform() * 3);
    for (std::size_t o = 0; o < size.types; ++o) {
      if (random.uniform() < 0.1 && o > 0) continue;  // does not fit its memory
      Mode mode;
      mode.job = j;
      mode.offer = o;
      mode.gang = gang;
      mode.time = Seconds(3600 * hours / std::pow(speed[o], gain) / std::pow(gang, 0.9));
      mode.extra_energy = (problem.offers[o].load - problem.offers[o].idle) /
                          problem.offers[o].gpus * gang * mode.time;
      problem.modes.push_back(mode);
    }
  }
  problem.limits.deadline = Seconds(3600 * size.deadline_h);
  return problem;
}

}  // namespace tracecast::plan::test
