#include "calibrate/table/error_statistics.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

/// The middle value, or the mean of the two middle ones. Sorts; not for nothing.
double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

ErrorStatistics summarize(const std::vector<JudgedRow>& rows) {
  ErrorStatistics result;
  result.n = rows.size();
  if (rows.empty()) return result;
  const auto n = static_cast<double>(rows.size());
  std::vector<double> magnitudes, widths;
  magnitudes.reserve(rows.size());
  widths.reserve(rows.size());
  double plain = 0, three = 0;
  bool have_rooflines = true;
  for (const JudgedRow& row : rows) {
    have_rooflines = have_rooflines && row.plain_error && row.three_error;
    plain += std::abs(row.plain_error.value_or(0)) / n;
    three += std::abs(row.three_error.value_or(0)) / n;
    magnitudes.push_back(std::abs(row.error));
    widths.push_back(row.half_width);
    result.mape += std::abs(row.error) / n;
    result.bias += row.error / n;
    result.coverage90 += row.within_interval ? 1.0 / n : 0.0;
  }
  if (have_rooflines) result.plain_mape = plain, result.three_mape = three;
  result.median_ape = median(magnitudes);
  result.median_half_width = median(widths);
  const auto rank = static_cast<std::size_t>(std::ceil(0.9 * n - 1e-9));
  result.p90_ape = magnitudes[std::max<std::size_t>(rank, 1) - 1];
  return result;
}

}  // namespace tracecast
