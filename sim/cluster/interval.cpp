#include "sim/cluster/interval.hpp"

#include <array>
#include <cmath>

namespace tracecast {
namespace {
constexpr double kNormalQuantile95 = 1.6448536269514722;
}

double step_log_sd(std::span<const ErrorShare> kernels, Seconds step, Seconds host,
                   double host_log_sd, double system_log_sd) {
  double variance = system_log_sd * system_log_sd;
  if (step > Seconds(0)) {
    std::array<double, kKernelClassCount> by_class{};
    for (const ErrorShare& kernel : kernels) {
      by_class[static_cast<std::size_t>(kernel.kernel_class)] += kernel.time / step * kernel.log_sd;
    }
    for (const double sd : by_class) variance += sd * sd;
    const double host_sd = host / step * host_log_sd;
    variance += host_sd * host_sd;
  }
  return std::sqrt(variance);
}

Interval interval90(double value, double log_sd) {
  const double factor = std::exp(kNormalQuantile95 * log_sd);
  return {.value = value, .low = value / factor, .high = value * factor};
}

}  // namespace tracecast
