#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace tracecast::serve {

/// Values in the order in which they came, weighted: all of them as long as they are few, then
/// their counts in bins a thousandth wide.
class Samples {
 public:
  /// `times`: so many of them, one after the other.
  void add(double value, double weight = 1, std::uint64_t times = 1);
  [[nodiscard]] double weight() const { return weight_; }
  [[nodiscard]] double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  /// The least value that at least a share `q` is not above; 0 of nothing.
  [[nodiscard]] double quantile(double q) const;
  /// Half of the 90 % confidence interval of the mean, and of a quantile: from ten batches one
  /// after the other, which are taken as independent; nothing from fewer than 100 values.  Source:
  /// Law, Simulation Modeling and Analysis, section 9.5.3.
  [[nodiscard]] double mean_half_width() const;
  [[nodiscard]] double quantile_half_width(double q) const;

 private:
  struct Weighted {
    double value = 0, weight = 1;
    std::uint64_t times = 1;
    [[nodiscard]] double total() const { return weight * static_cast<double>(times); }
  };
  void count(double value, double weight);
  static double quantile_of(std::vector<Weighted> values, double q);
  template <class Statistic>
  double half_width(const Statistic& statistic) const;

  static constexpr std::uint64_t kMostKept = std::uint64_t{1} << 17;
  std::vector<Weighted> kept_;
  std::uint64_t kept_values_ = 0;  ///< that `kept_` stands for
  bool is_binned_ = false;
  int first_bin_ = 0;         ///< floor(ln value / kBin) of the first of `bins_`
  std::vector<double> bins_;  ///< weights
  double zeros_ = 0;          ///< weight of values that have no logarithm
  double weight_ = 0, sum_ = 0;
};

/// What is reported of a latency.
struct Uncertainty {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0;
  double mean_half_width = 0, p50_half_width = 0, p90_half_width = 0, p99_half_width = 0;
};
[[nodiscard]] Uncertainty uncertainty_of(const Samples& samples);

}  // namespace tracecast::serve
