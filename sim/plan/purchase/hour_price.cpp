#include "sim/plan/purchase/hour_price.hpp"

namespace tracecast::plan {

HourPrice hour_price(const Catalogue& catalogue, std::string_view gpu) {
  constexpr double kUsualYears = 4, kYearHours = 8760, kMonthHours = 730;
  const double life_hours =
      catalogue.amortisation ? catalogue.amortisation->in_s() / 3600 : kUsualYears * kYearHours;
  HourPrice price;
  for (const Offer& offer : catalogue.offers) {
    if (offer.gpu != gpu) continue;
    if (offer.tenure == Tenure::Rented) {
      const double usd = offer.usd_per_hour * (1 + offer.extra_time) / offer.gpus;
      if (price.rented_usd && *price.rented_usd <= usd) continue;
      price.rented_usd = usd;
      price.rented_offer = offer.id;
      continue;
    }
    const double usd = (offer.price_usd / life_hours +
                        offer.rack_units * catalogue.rack_unit_usd_per_month / kMonthHours +
                        offer.idle.in_w() / 1000 * catalogue.pue * catalogue.energy_usd_per_kwh) /
                       offer.gpus;
    if (price.owned_usd && *price.owned_usd <= usd) continue;
    price.owned_usd = usd;
    price.owned_offer = offer.id;
  }
  return price;
}

}  // namespace tracecast::plan
