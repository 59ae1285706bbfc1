#pragma once
#include <string>

#include "sim/base/units.hpp"
#include "sim/step/interval.hpp"

namespace tracecast {

/// Whether a job fits a device, as far as can be said. What it needs is log-normal around the
/// prediction:
///   probability = P(least e^x <= room) = Phi(ln(room / least) / log_sd),   x ~ N(0, log_sd^2)
struct MemoryFit {
  Interval needed;         ///< bytes, with the central 90 %
  double probability = 1;  ///< that it fits
};
/// `needed`: by the framework as it likes to run; `least`: without what it can do without; `room`:
/// what there is for that. At least 1 byte of each; `log_sd` above 0.
[[nodiscard]] MemoryFit memory_fit(Bytes needed, Bytes least, Bytes room, double log_sd);

/// Verdicts are thresholds of the probability.
inline constexpr double kSurelyFits = 0.95, kLikelyFits = 0.5, kHardlyFits = 0.05;
/// "fits", "fits with 80 %", "likely does not fit (20 %)" or "does not fit".
[[nodiscard]] std::string fit_words(double probability);

/// Share of its memory that a device may count on having for a job that is to fit with that
/// probability: e^(-z log_sd), z = Phi^-1(probability).
[[nodiscard]] double share_to_plan_with(double probability, double log_sd);

}  // namespace tracecast
