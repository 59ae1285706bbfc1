#pragma once
#include <cstddef>
#include <optional>
#include <vector>

namespace tracecast {

/// One measured row with its prediction.
struct JudgedRow {
  double error = 0;              ///< (predicted - measured) / measured
  bool within_interval = false;  ///< measured lies in the 90 % interval
  double half_width = 0;         ///< half of that interval over the prediction
  /// Errors of the plain roofline and of that with three constants (row_roofline.hpp); nothing
  /// where a row has none.
  std::optional<double> plain_error{}, three_error{};
};

/// How good the predictions of a set of rows are; all values are fractions.
struct ErrorStatistics {
  std::size_t n = 0;
  double mape = 0;  ///< mean of |error|
  double median_ape =
      0;               ///< median of |error|: the middle value, or the mean of the two middle ones
  double p90_ape = 0;  ///< smallest |error| that at least 90 % of the rows do not exceed
  double bias = 0;     ///< mean of error
  double coverage90 = 0;         ///< share of rows within their 90 % interval; 0.9 is ideal
  double median_half_width = 0;  ///< of the rows' intervals
  /// Mean of |error| of the two rooflines; nothing unless every row has them.
  std::optional<double> plain_mape{}, three_mape{};
};
/// All zero when there is no row.
[[nodiscard]] ErrorStatistics summarize(const std::vector<JudgedRow>& rows);

}  // namespace tracecast
