#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/units.hpp"

namespace tracecast::plan {

/// One way to get a machine.
enum class Tenure { Owned, Bought, Rented };
[[nodiscard]] std::string_view to_string(Tenure tenure);

/// A machine as a plan counts it. One that was made here is valid.
struct Offer {
  std::string id;       ///< "dgx_a100", of rented ones "dgx_a100 rented" or "dgx_a100 spot"
  std::string gpu;      ///< id of a GPU
  std::string machine;  ///< id of a machine spec; empty: a usual one
  int gpus = 1;         ///< of parts: all of them
  int parts = 1;        ///< of each GPU; above one, `gpu` is a part and gangs have one
  Tenure tenure = Tenure::Bought;
  double price_usd = 0;     ///< of one, when bought
  double usd_per_hour = 0;  ///< of one, when rented
  double extra_time = 0;    ///< share of work lost to interruptions
  Watts load, idle;  ///< of the machine with its part of the switches; rented: not ours to pay
  int rack_units = 0;
  int least = 0, most = 1000;  ///< owned: both are what there is
  Seconds delivery{};          ///< before it can be used
  std::string note, source;    ///< for people
};

/// Offers and what it costs to run them.
struct Catalogue {
  std::string id, name, date;
  bool are_cards = false;  ///< its offers are cards alone
  std::vector<Offer> offers;
  double energy_usd_per_kwh = 0;
  double pue = 1;                       ///< energy of the room over energy of the machines
  double rack_unit_usd_per_month = 0;   ///< a month is 730 hours
  std::optional<Seconds> amortisation;  ///< nothing: a purchase is charged whole
};

/// Reads and checks a catalogue in text format (sim/plan/proto/catalogue.proto). `where` names it
/// in errors. Powers that are left out follow from the GPU's spec: its boards at their limit, or
/// idle. Throws InputError with line: bad syntax, no offer, an id twice, a GPU that nobody knows,
/// neither price nor rent, negative prices or powers, idle above load.
[[nodiscard]] Catalogue load_catalogue(std::string_view text, std::string_view where,
                                       const GpuCatalog& gpus);
/// What the dated catalogues in the binary (sim/plan/prices/) offer.
enum class Priced {
  Machines,          ///< to buy and to rent: what a purchase consists of
  MachinesAndCards,  ///< and cards alone: what a job costs
};
/// The dated catalogues in the binary as one, which has the name and the costs of the one with an
/// energy price.
[[nodiscard]] Catalogue embedded_catalogue(const GpuCatalog& gpus, Priced what);

/// Machines of a fleet file as offers that cost nothing to have and must be kept. Throws InputError
/// with line: a GPU that nobody knows.
[[nodiscard]] std::vector<Offer> owned_offers(std::string_view fleet_text, std::string_view where,
                                              const GpuCatalog& gpus);

}  // namespace tracecast::plan
