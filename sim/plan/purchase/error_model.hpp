#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/step/interval.hpp"

namespace tracecast::plan {

/// How the errors of predictions hang together. ln(measured / predicted) of job j on GPU g is
///   sd_jg (sqrt(job) a_j + sqrt(gpu) b_g + sqrt(1 - job - gpu) c_jg),    a, b, c independent and
///   standard normal
/// where sd_jg is the interval's. Shares of the variance are fitted (sim/plan/errors/, which names
/// its data).
struct ErrorShares {
  double job = 0;  ///< what a job's errors on all GPUs have in common
  double gpu = 0;  ///< what a GPU's errors over all jobs have in common
  /// Degrees of freedom of a job's errors: some jobs are far off everywhere, so what is seen of a
  /// job tells its spread, too.
  int freedom = 4;
};
[[nodiscard]] ErrorShares fitted_error_shares();
/// Reads and checks shares in text format (sim/plan/proto/error_shares.proto). Throws InputError.
[[nodiscard]] ErrorShares load_error_shares(std::string_view text, std::string_view where);

/// One predicted throughput.
struct ErrorCell {
  std::size_t job = 0, gpu = 0;  ///< alike numbers: the same job, the same kind of GPU
  double log_sd = 0;
};
/// ln(true / predicted) of cells that somebody measured.
struct MeasuredCell {
  std::size_t cell = 0;
  double log_ratio = 0;  ///< ln(measured / predicted)
  double log_sd = 0;     ///< of the measurement
};

/// What is known of all cells' errors.
struct ErrorField {
  std::size_t size = 0;
  std::vector<double> mean;        ///< by cell, of ln(true / predicted)
  std::vector<double> covariance;  ///< size x size, before `scale`
  std::vector<std::size_t> job;    ///< by cell
  std::vector<double>
      scale;  ///< by cell: errors about the mean are scale x normal / sqrt(chi^2_freedom / freedom)
  std::vector<int> freedom;
  /// Half of the 90 % interval of ln(true / predicted).
  [[nodiscard]] double half_width(std::size_t cell) const;
};

/// Errors of `cells` before any measurement, or given some:
///   mean = K (M + N)^-1 y,  covariance = S - K (M + N)^-1 K',  S of all, M of the measured, K
///   between, N their noise freedom = v + m,  scale^2 = s^2 (v + d^2 / s^2) / (v + m),  m
///   measurements of the job, d their distance sqrt(y' M^-1 y)
/// s = 1.645 / t_v(0.95), so that without measurements the 90 % intervals stay what they are.
/// Source: conditional distribution of a multivariate t, Ding, "On the Conditional Distribution of
/// the Multivariate t Distribution", The American Statistician 70(3), 2016.
[[nodiscard]] ErrorField error_field(const std::vector<ErrorCell>& cells, const ErrorShares& shares,
                                     const std::vector<MeasuredCell>& measured = {});

/// `count` worlds: for each the errors of all cells, world by world. The same seed gives the same
/// worlds.
[[nodiscard]] std::vector<std::vector<double>> draw_worlds(const ErrorField& field,
                                                           std::size_t count, std::uint64_t seed);

/// The standard deviation of ln(true / value) that an interval states, the mean of its two sides.
[[nodiscard]] double log_sd_of(const Interval& interval);
/// The interval after its error's mean and spread are known.
[[nodiscard]] Interval corrected(const Interval& interval, const ErrorField& field,
                                 std::size_t cell);

}  // namespace tracecast::plan
