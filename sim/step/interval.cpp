#include "sim/step/interval.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

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

Interval interval90_with_added(const Interval& interval, const AddedHost& added) {
  if (!added.any() || !(interval.value > 0) || !(interval.low > 0)) return interval;
  const double sd =
      std::max(std::log(interval.high / interval.low) / (2 * kNormalQuantile95), 1e-6);
  const double base = std::max(interval.value - added.median().in_s(), interval.value * 1e-3);
  const auto below = [&](double t) {
    double sum = 0;
    for (const LikelyTime& one : added.times) {
      const double rest = t - one.time.in_s();
      if (rest > 0) sum += one.weight * probability_below(rest, base, sd);
    }
    return sum;
  };
  const auto quantile = [&](double probability) {
    double low = base * 1e-3, high = base * 1e3 + 2 * added.times.back().time.in_s();
    for (int i = 0; i < 60; ++i) {
      const double t = std::sqrt(low * high);
      (below(t) < probability ? low : high) = t;
    }
    return high;
  };
  return {.value = interval.value,
          .low = std::min(interval.value, quantile(0.05)),
          .high = std::max(interval.value, quantile(0.95))};
}

namespace {
constexpr double kSharedError = 0.7;

double log_sd_of(const Interval& interval) {
  const double sd = std::log(interval.high / interval.low) / (2 * kNormalQuantile95);
  return std::isfinite(sd) ? std::max(sd, 1e-6) : 1e-6;
}

/// One possible time that a program adds, with what the runs say of the errors if it is so.
struct Possible {
  double x = 0, weight = 0;
  double mean = 0, variance = 1;  ///< of k
};

/// `x` after a run; weight 0: the run took less than it.
void take_run(const TimedStep& run, Possible& one) {
  const double rest = run.measured - one.x;
  if (!(rest > 0) || !(run.bare.value > 0)) {
    one.weight = 0;
    return;
  }
  const double sd = log_sd_of(run.bare);
  const double u = std::log(rest / run.bare.value) / sd;
  const double own = 1 - kSharedError + run.log_sd * run.log_sd / (sd * sd);
  const double variance = kSharedError * one.variance + own;
  const double root = std::sqrt(kSharedError);
  const double off = u - root * one.mean;
  one.weight *= std::exp(-0.5 * off * off / variance) / std::sqrt(variance) / (rest * sd);
  const double gain = root * one.variance / variance;
  one.mean += gain * off;
  one.variance *= 1 - gain * root;
}
}  // namespace

Interval without_added(const Interval& interval, const AddedHost& added, double log_sd) {
  const double base = std::max(interval.value - added.median().in_s(), interval.value * 1e-3);
  return interval90(base, log_sd);
}

Interval interval90_given(const Interval& bare, const AddedHost& added,
                          std::span<const TimedStep> runs) {
  std::vector<Possible> all;
  double sum = 0;
  for (const LikelyTime& time : added.times) {
    Possible one{.x = time.time.in_s(), .weight = time.weight};
    for (const TimedStep& run : runs) take_run(run, one);
    sum += one.weight;
    all.push_back(one);
  }
  const double sd = log_sd_of(bare);
  if (!(sum > 0)) return bare;
  const auto below = [&](double t) {
    double probability = 0;
    for (const Possible& one : all) {
      if (!(one.weight > 0) || t <= one.x) continue;
      const double mean = std::sqrt(kSharedError) * one.mean;
      const double own = std::sqrt(kSharedError * one.variance + 1 - kSharedError);
      probability += one.weight / sum *
                     probability_below(t - one.x, bare.value * std::exp(sd * mean), sd * own);
    }
    return probability;
  };
  const auto quantile = [&](double probability) {
    double low = bare.value * 1e-3, high = bare.value * 1e3 + 2 * all.back().x;
    for (int i = 0; i < 60; ++i) {
      const double t = std::sqrt(low * high);
      (below(t) < probability ? low : high) = t;
    }
    return high;
  };
  return {.value = quantile(0.5), .low = quantile(0.05), .high = quantile(0.95)};
}

}  // namespace tracecast
