#include "sim/step/memory/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

double normal_below(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

/// z of normal_below(z) = probability, by bisection.
double normal_quantile(double probability) {
  double low = -10, high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (normal_below(middle) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

MemoryFit memory_fit(Bytes needed, Bytes least, Bytes room, double log_sd) {
  TRACECAST_CHECK(log_sd > 0, "a spread above 0");
  MemoryFit fit;
  fit.needed = interval90(needed.in_bytes(), log_sd);
  const double ratio = std::max(room.in_bytes(), 1.0) / std::max(least.in_bytes(), 1.0);
  fit.probability = normal_below(std::log(ratio) / log_sd);
  return fit;
}

std::string fit_words(double probability) {
  if (probability >= kSurelyFits) return "fits";
  // 50 % and more fits, so that no rounding crosses the line.
  const double percent = 100 * probability;
  if (probability >= kLikelyFits) return fmt::format("fits with {:.0f} %", percent);
  if (probability >= kHardlyFits)
    return fmt::format("likely does not fit ({:.0f} %)", std::min(percent, 49.0));
  return "does not fit";
}

double share_to_plan_with(double probability, double log_sd) {
  return std::exp(-normal_quantile(probability) * log_sd);
}

}  // namespace tracecast
