#pragma once
#include <optional>
#include <string_view>

#include "sim/plan/purchase/catalogue.hpp"

namespace tracecast::plan {

/// What an hour of one GPU with its part of the machine costs.
struct HourPrice {
  std::optional<double> owned_usd;   ///< price over its amortisation (4 years where the catalogue
                                     ///< has none), idle power, hosting
  std::optional<double> rented_usd;  ///< the cheapest that is rented
  std::string_view owned_offer, rented_offer;
};
/// The cheapest of the catalogue's offers with that GPU.
[[nodiscard]] HourPrice hour_price(const Catalogue& catalogue, std::string_view gpu);

}  // namespace tracecast::plan
