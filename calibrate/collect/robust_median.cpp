#include "calibrate/collect/robust_median.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast::calibrate {

RobustMedian robust_median(std::span<const Seconds> values) {
  TRACECAST_CHECK(!values.empty(), "a median is of something");
  std::vector<double> x;
  x.reserve(values.size());
  for (const Seconds value : values) x.push_back(value.in_s());
  std::sort(x.begin(), x.end());
  const std::size_t last = x.size() - 1;
  const double median = (x[last / 2] + x[(last + 1) / 2]) / 2;

  RobustMedian result{.median = Seconds(median)};
  const double quartiles = x[last * 3 / 4] - x[last / 4];
  const double far = std::max(4 * quartiles, 0.02 * median);
  result.outliers = static_cast<int>(std::count_if(
      x.begin(), x.end(), [&](double value) { return std::abs(value - median) > far; }));
  if (x.size() < 3 || !(median > 0)) {
    result.relative_error = std::numeric_limits<double>::infinity();
    return result;
  }
  const double center = static_cast<double>(last) / 2;
  const double reach = std::sqrt(static_cast<double>(x.size())) / 2;
  const auto low = static_cast<std::size_t>(std::max(std::floor(center - reach), 0.0));
  const auto high = std::min(static_cast<std::size_t>(std::ceil(center + reach)), last);
  result.relative_error = (x[high] - x[low]) / 2 / median;
  return result;
}

}  // namespace tracecast::calibrate
