#include "calibrate/fit/uncertainty_likelihood.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

TEST_SUITE_BEGIN("calibrate/fit/uncertainty_likelihood");

namespace tracecast {

/// Rows of unknown 0, every other with unknown 1 on top; errors of Student's distribution with
/// `degrees` of freedom, scaled to the row's hidden spread.
UncertaintyProblem problem_of(double first, double second, double degrees, int n) {
  std::mt19937 random(7);
  std::student_t_distribution<double> student(degrees);
  UncertaintyProblem problem{.rows = {}, .priors = {0.15, 0.3}};
  for (int i = 0; i < n; ++i) {
    const bool both = i % 2 == 1;
    const double uncertainty = both ? std::hypot(first, second) : first;
    UncertaintyRow row{
        .error = student(random) * uncertainty, .weight = 1, .constant = 0, .parts = {{0, 1}}};
    if (both) row.parts.emplace_back(1, 1);
    problem.rows.push_back(row);
  }
  return problem;
}

double covered(const UncertaintyProblem& problem, const std::vector<double>& uncertainties) {
  int inside = 0;
  for (const UncertaintyRow& row : problem.rows) {
    double variance = row.constant;
    for (const auto& [j, part] : row.parts) variance += part * uncertainties[j] * uncertainties[j];
    inside += std::abs(row.error) <= 1.645 * std::sqrt(variance);
  }
  return inside / static_cast<double>(problem.rows.size());
}

TEST_CASE("spreads are found, whether errors have tails or not, and cover nine of ten") {
  for (const double degrees : {200.0, 6.0, 3.0}) {
    CAPTURE(degrees);
    const UncertaintyProblem problem = problem_of(0.1, 0.4, degrees, 4000);
    const std::vector<double> uncertainties = fit_uncertainty_problem(problem);
    CHECK(covered(problem, uncertainties) == doctest::Approx(0.90).epsilon(0.03));
    // By hand: hypot(0.1, 0.4) / 0.1 = 4.12, whatever the tails.
    CHECK(std::hypot(uncertainties[0], uncertainties[1]) / uncertainties[0] ==
          doctest::Approx(4.12).epsilon(0.12));
  }
}

TEST_CASE("a factor on the spread of some rows is found") {
  UncertaintyProblem problem{.rows = {}, .priors = {0.15, 1}};
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 4000; ++i) {
    const bool wide = i % 2 == 1;
    UncertaintyRow row{.error = normal(random) * (wide ? 0.36 : 0.2), .parts = {{0, 1}}};
    if (wide) row.factors = {{1, 1}};
    problem.rows.push_back(row);
  }
  const std::vector<double> uncertainties = fit_uncertainty_problem(problem);
  CHECK(uncertainties[0] == doctest::Approx(0.2).epsilon(0.1).scale(0));
  CHECK(uncertainties[1] == doctest::Approx(1.8).epsilon(0.1));
}

TEST_CASE("without tails a spread is the standard deviation") {
  const std::vector<double> uncertainties =
      fit_uncertainty_problem(problem_of(0.1, 0.4, 1000, 4000));
  CHECK(uncertainties[0] == doctest::Approx(0.1).epsilon(0.1).scale(0));
  CHECK(uncertainties[1] == doctest::Approx(0.4).epsilon(0.1));
}

TEST_CASE("a few rows that nobody foresaw hardly widen the others") {
  UncertaintyProblem problem = problem_of(0.1, 0.1, 200, 1000);
  const double before = fit_uncertainty_problem(problem)[0];
  for (int i = 0; i < 20; ++i) problem.rows[static_cast<std::size_t>(50 * i)].error = 3;
  CHECK(fit_uncertainty_problem(problem)[0] < 1.25 * before);
}

TEST_CASE("what is known of a row's variance is not explained again, and no row leaves the prior") {
  UncertaintyProblem problem{.rows = {}, .priors = {0.15, 0.3}};
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 2000; ++i) {
    problem.rows.push_back(
        {.error = 0.5 * normal(random), .weight = 1, .constant = 0.25 - 0.01, .parts = {{0, 1}}});
  }
  const std::vector<double> uncertainties = fit_uncertainty_problem(problem);
  CHECK(uncertainties[0] < 0.2);  // 0.1, and little said about it
  CHECK(uncertainties[1] == doctest::Approx(0.3).epsilon(0.02));
}

TEST_CASE("a group left out errs by more than one that all others predict") {
  CHECK(for_one_more_group(1) == 1);
  CHECK(for_one_more_group(2) == doctest::Approx(std::sqrt(1.5 / 2)));
  CHECK(for_one_more_group(4) == doctest::Approx(std::sqrt(1.25 / (4.0 / 3))));
  // Groups with means of spread 1, each predicted by the mean of some others: as wide as the
  // formula says.
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  const auto uncertainty_with = [&](int others) {
    double sum = 0;
    constexpr int kTrials = 40000;
    for (int t = 0; t < kTrials; ++t) {
      double mean = 0;
      for (int i = 0; i < others; ++i) mean += normal(random) / others;
      sum += std::pow(normal(random) - mean, 2);
    }
    return std::sqrt(sum / kTrials);
  };
  CHECK(uncertainty_with(3) / uncertainty_with(2) ==
        doctest::Approx(for_one_more_group(3)).epsilon(0.03));
}

}  // namespace tracecast

TEST_SUITE_END();
