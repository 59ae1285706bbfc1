#include "calibrate/table/error_statistics.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {

ErrorStatistics summarize(const std::vector<JudgedRow>& rows) {
  ErrorStatistics result;
  result.n = rows.size();
  if (rows.empty()) return result;
  const auto n = static_cast<double>(rows.size());
  std::vector<double> magnitudes;
  magnitudes.reserve(rows.size());
  for (const JudgedRow& row : rows) {
    magnitudes.push_back(std::abs(row.error));
    result.mape += std::abs(row.error) / n;
    result.bias += row.error / n;
    result.coverage90 += row.within_interval ? 1.0 / n : 0.0;
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  const std::size_t middle = magnitudes.size() / 2;
  result.median_ape = magnitudes.size() % 2 ? magnitudes[middle]
                                            : (magnitudes[middle - 1] + magnitudes[middle]) / 2;
  const auto rank = static_cast<std::size_t>(std::ceil(0.9 * n - 1e-9));
  result.p90_ape = magnitudes[std::max<std::size_t>(rank, 1) - 1];
  return result;
}

}  // namespace tracecast
