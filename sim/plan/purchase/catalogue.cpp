#include "sim/plan/purchase/catalogue.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <span>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/plan/proto/catalogue.pb.h"
#include "sim/plan/proto/fleet.pb.h"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> purchase_prices();
}  // namespace embedded
namespace plan {
namespace {

constexpr std::int64_t kMostGpus = 1024, kMostMachines = 100'000;
constexpr double kDay = 86400, kYear = 8760 * 3600.0, kMost = 1e12;

std::string line_place(std::string_view where, int line) {
  return line > 0 ? fmt::format("{}:{}", where, line) : std::string(where);
}

double number(double value, const std::string& place, std::string_view field, double least = 0,
              double most = kMost) {
  if (!std::isfinite(value) || value < least || value > most) {
    throw InputError(place, fmt::format("{} {}", field, value),
                     fmt::format("a number from {} to {}", least, most));
  }
  return value;
}

std::int64_t whole(std::int64_t value, const std::string& place, std::string_view field,
                   std::int64_t least, std::int64_t most) {
  if (value < least || value > most) {
    throw InputError(place, fmt::format("{} {}", field, value),
                     fmt::format("{} to {}", least, most));
  }
  return value;
}

const GpuSpec& gpu_of(const GpuCatalog& gpus, const std::string& word, const std::string& place) {
  if (word.empty()) throw InputError(place, "no gpu", "gpu: \"a100_sxm4_80gb\"");
  try {
    return gpus.find(word);
  } catch (const InputError& error) {
    throw InputError(place, error);
  }
}

/// The boards alone where nobody says what the machine draws.
void fill_powers(Offer& offer, const GpuSpec& gpu, std::optional<double> load,
                 std::optional<double> idle, const std::string& place) {
  offer.load = load ? Watts(*load) : gpu.tdp * static_cast<double>(offer.gpus);
  offer.idle = idle ? Watts(*idle) : gpu.idle_power * static_cast<double>(offer.gpus);
  if (!idle && offer.idle > offer.load) offer.idle = offer.load;
  if (offer.idle > offer.load) {
    throw InputError(place,
                     fmt::format("idle {} W above load {} W", offer.idle.in_w(), offer.load.in_w()),
                     "no more than load");
  }
}

/// Parts of GPUs count as GPUs.
void read_parts(bool given, std::int64_t parts, Offer& offer, const std::string& place) {
  constexpr std::int64_t kMostParts = 64;
  if (!given) return;
  offer.parts = static_cast<int>(whole(parts, place, "parts", 1, kMostParts));
  offer.gpus *= offer.parts;
}

template <class Group>
std::optional<double> watts(bool given, double value, const Group& place, std::string_view field) {
  if (!given) return std::nullopt;
  return number(value, place, field, 0, 1e7);
}

Offer common(const proto::Catalogue::Offer& m, const GpuCatalog& gpus, const std::string& place) {
  if (m.id().empty()) throw InputError(place, "an offer without id", "id: \"dgx_a100\"");
  Offer offer;
  offer.id = m.id();
  const GpuSpec& gpu = gpu_of(gpus, m.gpu(), place);
  offer.gpu = gpu.id;
  offer.machine = m.machine();
  if (m.has_gpus()) offer.gpus = static_cast<int>(whole(m.gpus(), place, "gpus", 1, kMostGpus));
  read_parts(m.has_parts(), m.parts(), offer, place);
  if (m.has_most()) offer.most = static_cast<int>(whole(m.most(), place, "most", 0, kMostMachines));
  if (m.has_rack_units())
    offer.rack_units = static_cast<int>(whole(m.rack_units(), place, "rack_units", 0, 1000));
  fill_powers(offer, gpu, watts(m.has_load_w(), m.load_w(), place, "load_w"),
              watts(m.has_idle_w(), m.idle_w(), place, "idle_w"), place);
  offer.delivery = Seconds(kDay * number(m.delivery_days(), place, "delivery_days", 0, 36500));
  offer.note = m.note();
  offer.source = m.source();
  return offer;
}

void add_offers(const proto::Catalogue::Offer& m, const GpuCatalog& gpus, const std::string& place,
                Catalogue& catalogue) {
  const Offer offer = common(m, gpus, place);
  if (!m.has_price_usd() && !m.has_usd_per_hour() && !m.has_spot_usd_per_hour()) {
    throw InputError(place, '"' + m.id() + "\" without a price",
                     "price_usd, usd_per_hour or spot_usd_per_hour");
  }
  if (m.has_price_usd()) {
    Offer bought = offer;
    bought.price_usd = number(m.price_usd(), place, "price_usd");
    catalogue.offers.push_back(std::move(bought));
  }
  const auto add_rented = [&](double usd, std::string_view field, std::string_view word,
                              double extra) {
    Offer rented = offer;
    rented.id += m.has_price_usd() || word == "spot" ? fmt::format(" {}", word) : "";
    rented.tenure = Tenure::Rented;
    rented.usd_per_hour = number(usd, place, field);
    rented.extra_time = extra;
    rented.delivery = {};
    catalogue.offers.push_back(std::move(rented));
  };
  if (m.has_usd_per_hour()) add_rented(m.usd_per_hour(), "usd_per_hour", "rented", 0);
  if (m.has_spot_usd_per_hour()) {
    add_rented(m.spot_usd_per_hour(), "spot_usd_per_hour", "spot",
               number(m.spot_extra_time(), place, "spot_extra_time", 0, 100));
  }
}

void read_costs(const proto::Catalogue& m, const std::string& place, Catalogue& catalogue) {
  catalogue.energy_usd_per_kwh = number(m.energy_usd_per_kwh(), place, "energy_usd_per_kwh");
  if (m.has_pue()) catalogue.pue = number(m.pue(), place, "pue", 1, 10);
  catalogue.rack_unit_usd_per_month =
      number(m.rack_unit_usd_per_month(), place, "rack_unit_usd_per_month");
  if (m.has_amortisation_years()) {
    catalogue.amortisation =
        Seconds(kYear * number(m.amortisation_years(), place, "amortisation_years", 0.01, 100));
  }
}

}  // namespace

std::string_view to_string(Tenure tenure) {
  return tenure == Tenure::Owned ? "owned" : tenure == Tenure::Bought ? "bought" : "rented";
}

Catalogue load_catalogue(std::string_view text, std::string_view where, const GpuCatalog& gpus) {
  proto::Catalogue message;
  TextprotoLines lines;
  parse_textproto(text, where, message, &lines);
  Catalogue catalogue;
  catalogue.id = message.id();
  catalogue.name = message.name();
  catalogue.date = message.date();
  catalogue.are_cards = message.cards();
  if (message.offer_size() == 0) {
    throw InputError(where, "no offer",
                     "offer { id: \"box\" gpu: \"a100_sxm4_80gb\" gpus: 8 price_usd: 100000 }");
  }
  const auto* offers = proto::Catalogue::descriptor()->FindFieldByName("offer");
  std::set<std::string> ids;
  for (int o = 0; o < message.offer_size(); ++o) {
    const std::string place = line_place(where, lines.find(offers, o));
    if (!ids.insert(message.offer(o).id()).second) {
      throw InputError(place, "a second offer \"" + message.offer(o).id() + '"', "each id once");
    }
    add_offers(message.offer(o), gpus, place, catalogue);
  }
  read_costs(message, std::string(where), catalogue);
  return catalogue;
}

Catalogue embedded_catalogue(const GpuCatalog& gpus, Priced what) {
  Catalogue all;
  std::vector<Offer> others;
  for (const EmbeddedFile& file : embedded::purchase_prices()) {
    Catalogue one = load_catalogue(file.content, file.path, gpus);
    if (one.are_cards && what == Priced::Machines) continue;
    if (one.energy_usd_per_kwh > 0) {
      TRACECAST_CHECK(all.offers.empty(), "one catalogue in the binary has an energy price");
      all = std::move(one);
    } else {
      others.insert(others.end(), one.offers.begin(), one.offers.end());
    }
  }
  TRACECAST_CHECK(!all.offers.empty(), "a catalogue in the binary has an energy price");
  all.offers.insert(all.offers.end(), others.begin(), others.end());
  return all;
}

std::vector<Offer> owned_offers(std::string_view fleet_text, std::string_view where,
                                const GpuCatalog& gpus) {
  proto::Fleet message;
  TextprotoLines lines;
  parse_textproto(fleet_text, where, message, &lines);
  const auto* groups = proto::Fleet::descriptor()->FindFieldByName("group");
  if (message.group_size() == 0) {
    throw InputError(where, "no group", "group { count: 8 gpus: 8 gpu: \"v100\" }");
  }
  std::vector<Offer> offers;
  for (int g = 0; g < message.group_size(); ++g) {
    const auto& m = message.group(g);
    const std::string place = line_place(where, lines.find(groups, g));
    const GpuSpec& gpu = gpu_of(gpus, m.gpu(), place);
    Offer offer;
    offer.id = m.name().empty() ? fmt::format("own {}", gpu.id) : m.name();
    offer.gpu = gpu.id;
    offer.machine = m.machine();
    offer.tenure = Tenure::Owned;
    if (m.has_gpus()) offer.gpus = static_cast<int>(whole(m.gpus(), place, "gpus", 1, kMostGpus));
    read_parts(m.has_parts(), m.parts(), offer, place);
    const std::int64_t count =
        m.has_count() ? whole(m.count(), place, "count", 1, kMostMachines) : 1;
    offer.least = offer.most = static_cast<int>(count);
    if (m.has_rack_units())
      offer.rack_units = static_cast<int>(whole(m.rack_units(), place, "rack_units", 0, 1000));
    fill_powers(offer, gpu,
                watts(m.has_machine_load_w(), m.machine_load_w(), place, "machine_load_w"),
                watts(m.has_machine_idle_w(), m.machine_idle_w(), place, "machine_idle_w"), place);
    for (const Offer& other : offers) {
      if (other.id == offer.id)
        throw InputError(place, "a second group \"" + offer.id + '"', "a name of its own");
    }
    offers.push_back(std::move(offer));
  }
  return offers;
}

}  // namespace plan
}  // namespace tracecast
