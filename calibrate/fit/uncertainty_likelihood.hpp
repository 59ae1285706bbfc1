#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace tracecast {

/// An error and what its variance is made of.
struct UncertaintyRow {
  double error = 0;  ///< ln(measured / predicted)
  double weight = 1;
  double constant = 0;                                ///< of the variance, what no unknown decides
  std::vector<std::pair<std::size_t, double>> parts;  ///< (unknown, coefficient of its square)
  /// (unknown that multiplies the spread, power to which it does)
  std::vector<std::pair<std::size_t, double>> factors = {};
};
/// Unknown spreads with their priors' centres.
struct UncertaintyProblem {
  std::vector<UncertaintyRow> rows;
  std::vector<double> priors;
};

/// Spreads s that make the errors most likely:
///   maximise  sum over rows w ln t(e / (c v)) / (c v)  -  1/2 sum over unknowns ln(s_j /
///   prior_j)^2 v^2 = (constant + sum_j part_j s_j^2) GEMM of the factors' squares, each to its
///   power
/// t is Student's density with 6 degrees of freedom, and c = 1.645 / 1.943 the ratio of the
/// normal's and its 95 % quantile: v is the standard deviation of that normal distribution whose
/// central 90 % are t's. Kernels that nobody foresaw make tails that a normal density would pay for
/// with the width of every interval. Priors are a factor of e wide. Coordinate descent in ln s with
/// steps that shrink to 1 %; deterministic. Source of the idea: Lange, Little and Taylor, Robust
/// statistical modeling using the t distribution, JASA 84, 1989.
[[nodiscard]] std::vector<double> fit_uncertainty_problem(const UncertaintyProblem& problem);

/// What errors of a group left out are multiplied by, for a fit that has that group, too: a group
/// is predicted from n others with a variance that goes as 1 + 1/n (a mean of n, and the group's
/// own), and while one of n is left out there are n - 1.
///   sqrt((1 + 1/n) / (1 + 1/(n-1))),   1 below two groups
/// A prior beside the groups' mean makes it nearer 1. Source: the variance of a new group in a
/// one-way random-effects model.
[[nodiscard]] double for_one_more_group(std::size_t groups);

}  // namespace tracecast
