#include "calibrate/fit/uncertainty_likelihood.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

constexpr double kDegrees = 6;
constexpr double kNormalQuantile95 = 1.6448536269514722, kStudentQuantile95 = 1.9431802805;
constexpr double kLeast = 0.01, kMost = 2;

/// What is minimised, but for a constant.
double cost_of(const UncertaintyProblem& problem, const std::vector<double>& uncertainties) {
  constexpr double kScale = kNormalQuantile95 / kStudentQuantile95;
  double cost = 0;
  for (const UncertaintyRow& row : problem.rows) {
    double variance = row.constant;
    for (const auto& [unknown, part] : row.parts) {
      variance += part * uncertainties[unknown] * uncertainties[unknown];
    }
    for (const auto& [unknown, power] : row.factors) {
      const double squared = uncertainties[unknown] * uncertainties[unknown];
      variance *= power == 1 ? squared : std::pow(squared, power);
    }
    const double scale2 = kScale * kScale * std::max(variance, kLeast * kLeast);
    const double tail = std::log1p(row.error * row.error / (kDegrees * scale2));
    cost += row.weight * 0.5 * (std::log(scale2) + (kDegrees + 1) * tail);
  }
  for (std::size_t j = 0; j < uncertainties.size(); ++j) {
    const double off = std::log(uncertainties[j] / problem.priors[j]);
    cost += 0.5 * off * off;
  }
  return cost;
}

}  // namespace

double for_one_more_group(std::size_t groups) {
  const auto n = static_cast<double>(groups);
  return groups < 2 ? 1 : std::sqrt((1 + 1 / n) / (1 + 1 / (n - 1)));
}

std::vector<double> fit_uncertainty_problem(const UncertaintyProblem& problem) {
  std::vector<double> best = problem.priors;
  double least = cost_of(problem, best);
  for (double step = 0.4; step > 0.01; step *= 0.6) {
    for (bool improved = true; improved;) {
      improved = false;
      for (double& uncertainty : best) {
        for (const double factor : {std::exp(step), std::exp(-step)}) {
          const double old = uncertainty;
          uncertainty = std::clamp(uncertainty * factor, kLeast, kMost);
          const double now = cost_of(problem, best);
          if (now < least - 1e-6) {
            least = now;
            improved = true;
            break;
          }
          uncertainty = old;
        }
      }
    }
  }
  return best;
}

}  // namespace tracecast
