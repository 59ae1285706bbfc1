#include "sim/step/interval.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

namespace tracecast {
namespace {
constexpr double kNormalQuantile95 = 1.6448536269514722;
}

double step_log_sd(std::span<const ErrorShare> kernels, Seconds step, Seconds host,
                   double host_log_sd, double system_log_sd) {
  double variance = system_log_sd * system_log_sd;
  if (step > Seconds(0)) {
    std::array<double, kKernelClassCount> shared{};
    std::map<std::pair<KernelClass, Seconds>, double> own;  // by shape
    for (const ErrorShare& kernel : kernels) {
      const double part = kernel.time / step;
      const double rest =
          kernel.log_sd * kernel.log_sd - kernel.shared_log_sd * kernel.shared_log_sd;
      shared[static_cast<std::size_t>(kernel.kernel_class)] += part * kernel.shared_log_sd;
      own[{kernel.kernel_class, kernel.time}] += part * std::sqrt(std::max(rest, 0.0));
    }
    for (const double sd : shared) variance += sd * sd;
    for (const auto& [shape, sd] : own) variance += sd * sd;
    const double host_sd = host / step * host_log_sd;
    variance += host_sd * host_sd;
  }
  return std::sqrt(variance);
}

Interval interval90(double value, double log_sd) {
  const double factor = std::exp(kNormalQuantile95 * log_sd);
  return {.value = value, .low = value / factor, .high = value * factor};
}

namespace {
/// P(x <= t) of a log-normal x around `median`.
double probability_below(double t, double median, double log_sd) {
  if (!(median > 0)) return 1;
  if (!(log_sd > 0)) return t >= median ? 1 : 0;
  return 0.5 * std::erfc(-std::log(t / median) / (log_sd * std::sqrt(2.0)));
}
}  // namespace

Interval interval90_of_slower(double value, double a, double a_log_sd, double b, double b_log_sd) {
  const double slower = std::max(a, b);
  const auto quantile = [&](double probability) {
    double low = slower * 1e-3, high = slower * 1e3;
    for (int i = 0; i < 60; ++i) {
      const double t = std::sqrt(low * high);
      const bool below =
          probability_below(t, a, a_log_sd) * probability_below(t, b, b_log_sd) < probability;
      (below ? low : high) = t;
    }
    return high;
  };
  return {.value = value,
          .low = std::min(value, quantile(0.05) * value / slower),
          .high = std::max(value, quantile(0.95) * value / slower)};
}

}  // namespace tracecast
