#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/job/predictor.hpp"
#include "sim/plan/purchase/catalogue.hpp"
#include "sim/plan/purchase/hour_price.hpp"

namespace tracecast::plan {

/// An amount of work as people state it: "10^10 tokens", "90 epochs".
struct Work {
  enum class Unit { Samples, Tokens, Epochs };
  double amount = 0;
  Unit unit = Unit::Samples;
};
[[nodiscard]] std::string_view to_string(Work::Unit unit);

/// Samples of that work. `tokens`: of a sample, where the forecast does not tell. Throws
/// InputError: tokens of a network that has none, epochs of a data set whose samples nobody states.
[[nodiscard]] double samples_of(const Work& work, const Forecast& forecast,
                                std::optional<std::int64_t> tokens,
                                std::optional<std::int64_t> epoch_samples);

/// What work takes where a forecast was made: the central 90 % of each.
struct WorkCost {
  Work work;
  double samples = 0;
  Interval time_s;
  std::optional<Interval> energy_kwh;  ///< of all boards; nothing where no board draws power
  HourPrice hour;                      ///< of one of its GPUs
  std::optional<Interval> rented_usd;
  std::optional<Interval> owned_usd;  ///< with the boards' energy
  /// The smaller of the two; nothing where the catalogue has neither.
  [[nodiscard]] std::optional<Interval> cost_usd() const;
};

///   time   = samples / throughput
///   energy = samples * energy per sample
///   rented = time * GPUs * rent of an hour
///   owned  = time * GPUs * price of an hour + energy * PUE * price of energy
/// High and low go with those of the throughput.
[[nodiscard]] WorkCost work_cost(const Work& work, double samples, const Forecast& forecast,
                                 const Catalogue& catalogue);

/// How many GPUs do it in time.
struct GpusWithin {
  Seconds within{};
  std::int64_t gpus = 0;         ///< the fewest that likely do: half of the cases
  std::int64_t surely_gpus = 0;  ///< that do in 95 cases of 100; 0: none of those tried
  Interval time_s;               ///< with `gpus`
  std::optional<Interval> cost_usd;
};
/// Looks among 1, 2, 4, 8 ... GPUs, up to 16,384 and while more are faster, and between the last
/// two. Nothing: none is in time. Throws InputError: the job is refused with any number of GPUs.
[[nodiscard]] std::optional<GpusWithin> gpus_within(Seconds within, const Work& work,
                                                    double samples, const Predictor& predictor,
                                                    const Job& job, const Place& place,
                                                    const Parallelism& parallelism,
                                                    const Catalogue& catalogue);

}  // namespace tracecast::plan
