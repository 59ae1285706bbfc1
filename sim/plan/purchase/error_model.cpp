#include "sim/plan/purchase/error_model.hpp"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <map>
#include <span>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/plan/proto/error_shares.pb.h"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> error_shares();
}  // namespace embedded
namespace plan {
namespace {

constexpr double k90 = 1.6448536269514722;  ///< of a standard normal, both sides

/// 95 % of Student's t lie below.
double t95(int freedom) {
  return boost::math::quantile(boost::math::students_t_distribution<double>(freedom), 0.95);
}

/// Widens or narrows each job's errors by how far off its measurements are.
void set_scales(const std::vector<ErrorCell>& cells, const ErrorShares& shares,
                const std::vector<MeasuredCell>& measured, ErrorField& field);

double covariance_of(const ErrorCell& a, const ErrorCell& b, const ErrorShares& shares, bool same) {
  const double common =
      same ? 1 : (a.job == b.job ? shares.job : 0) + (a.gpu == b.gpu ? shares.gpu : 0);
  return common * a.log_sd * b.log_sd;
}

void set_scales(const std::vector<ErrorCell>& cells, const ErrorShares& shares,
                const std::vector<MeasuredCell>& measured, ErrorField& field) {
  const double low_precision = k90 / t95(shares.freedom);
  std::map<std::size_t, std::vector<MeasuredCell>> by_job;
  for (const MeasuredCell& run : measured) by_job[cells[run.cell].job].push_back(run);
  for (const ErrorCell& cell : cells) {
    field.job.push_back(cell.job);
    const auto known = by_job.find(cell.job);
    if (known == by_job.end()) {
      field.scale.push_back(low_precision);
      field.freedom.push_back(shares.freedom);
      continue;
    }
    const auto m = static_cast<Eigen::Index>(known->second.size());
    Eigen::MatrixXd uncertainty(m, m);  // row and column: measurements of the job
    Eigen::VectorXd seen(m);
    for (Eigen::Index a = 0; a < m; ++a) {
      const MeasuredCell& run = known->second[static_cast<std::size_t>(a)];
      seen(a) = run.log_ratio;
      for (Eigen::Index b = 0; b < m; ++b) {
        const MeasuredCell& other = known->second[static_cast<std::size_t>(b)];
        uncertainty(a, b) =
            covariance_of(cells[run.cell], cells[other.cell], shares, run.cell == other.cell);
      }
      uncertainty(a, a) += std::max(1e-12, run.log_sd * run.log_sd);
    }
    const double distance2 =
        seen.dot(uncertainty.ldlt().solve(seen)) / (low_precision * low_precision);
    const int freedom = shares.freedom + static_cast<int>(m);
    field.scale.push_back(low_precision * std::sqrt((shares.freedom + distance2) / freedom));
    field.freedom.push_back(freedom);
  }
}

}  // namespace

ErrorShares load_error_shares(std::string_view text, std::string_view where) {
  proto::ErrorShares message;
  parse_textproto(text, where, message);
  const ErrorShares shares{message.job_share(), message.gpu_share(), message.freedom()};
  if (!(shares.job >= 0 && shares.gpu >= 0 && shares.job + shares.gpu <= 1 &&
        shares.freedom >= 2)) {
    throw InputError(
        where, fmt::format("shares {} and {}, freedom {}", shares.job, shares.gpu, shares.freedom),
        "parts of a variance, at most 1 together, and freedom of 2 or more");
  }
  return shares;
}

ErrorShares fitted_error_shares() {
  const auto files = embedded::error_shares();
  TRACECAST_CHECK(files.size() == 1, "one fit is in the binary");
  return load_error_shares(files.front().content, files.front().path);
}

double ErrorField::half_width(std::size_t cell) const {
  const double sd = std::sqrt(std::max(0.0, covariance[cell * size + cell]));
  return t95(freedom[cell]) * scale[cell] * sd;
}

ErrorField error_field(const std::vector<ErrorCell>& cells, const ErrorShares& shares,
                       const std::vector<MeasuredCell>& measured) {
  const auto n = static_cast<Eigen::Index>(cells.size());
  const auto m = static_cast<Eigen::Index>(measured.size());
  Eigen::MatrixXd all(n, n);  // n x n, row and column: cells
  for (Eigen::Index a = 0; a < n; ++a)
    for (Eigen::Index b = 0; b < n; ++b)
      all(a, b) = covariance_of(cells[static_cast<std::size_t>(a)],
                                cells[static_cast<std::size_t>(b)], shares, a == b);
  Eigen::VectorXd mean = Eigen::VectorXd::Zero(n);
  if (m > 0) {
    Eigen::MatrixXd between(n, m), known(m, m);  // column: measurement
    Eigen::VectorXd seen(m);
    for (Eigen::Index b = 0; b < m; ++b) {
      const MeasuredCell& cell = measured[static_cast<std::size_t>(b)];
      between.col(b) = all.col(static_cast<Eigen::Index>(cell.cell));
      seen(b) = cell.log_ratio;
      for (Eigen::Index a = 0; a < m; ++a)
        known(a, b) = all(static_cast<Eigen::Index>(measured[static_cast<std::size_t>(a)].cell),
                          static_cast<Eigen::Index>(cell.cell));
      known(b, b) += std::max(1e-12, cell.log_sd * cell.log_sd);
    }
    // Two runs of one cell are two looks at the same error: their noises are their own.
    const Eigen::LDLT<Eigen::MatrixXd> solver(known);
    mean = between * solver.solve(seen);
    all -= between * solver.solve(between.transpose());
  }
  ErrorField field;
  field.size = cells.size();
  field.mean.assign(mean.data(), mean.data() + n);
  field.covariance.assign(all.data(), all.data() + n * n);
  set_scales(cells, shares, measured, field);
  return field;
}

std::vector<std::vector<double>> draw_worlds(const ErrorField& field, std::size_t count,
                                             std::uint64_t seed) {
  const auto n = static_cast<Eigen::Index>(field.size);
  const Eigen::Map<const Eigen::MatrixXd> covariance(field.covariance.data(), n, n);
  const Eigen::LDLT<Eigen::MatrixXd> factor(covariance);
  const Eigen::VectorXd scale = factor.vectorD().cwiseMax(0).cwiseSqrt();
  Random random(seed);
  std::vector<std::vector<double>> worlds;
  Eigen::VectorXd draw(n);
  for (std::size_t w = 0; w < count; ++w) {
    for (Eigen::Index i = 0; i < n; ++i) draw(i) = random.normal();
    Eigen::VectorXd error = factor.matrixL() * (scale.cwiseProduct(draw));
    error = factor.transpositionsP().transpose() * error;
    std::map<std::size_t, double> slice;  // of each job, in the order of cells
    std::vector<double> world(field.size);
    for (std::size_t i = 0; i < field.size; ++i) {
      const auto [of_job, is_new] = slice.try_emplace(field.job[i], 0);
      if (is_new) {
        double chi2 = 0;
        for (int f = 0; f < field.freedom[i]; ++f) {
          const double normal = random.normal();
          chi2 += normal * normal;
        }
        of_job->second = field.scale[i] * std::sqrt(field.freedom[i] / chi2);
      }
      world[i] = field.mean[i] + of_job->second * error(static_cast<Eigen::Index>(i));
    }
    worlds.push_back(std::move(world));
  }
  return worlds;
}

double log_sd_of(const Interval& interval) {
  if (!(interval.low > 0 && interval.high > interval.low)) return 0;
  return std::log(interval.high / interval.low) / (2 * k90);
}

Interval corrected(const Interval& interval, const ErrorField& field, std::size_t cell) {
  const double value = interval.value * std::exp(field.mean[cell]);
  const double half = field.half_width(cell);
  return {value, value * std::exp(-half), value * std::exp(half)};
}

}  // namespace plan
}  // namespace tracecast
