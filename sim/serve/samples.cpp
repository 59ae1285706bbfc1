#include "sim/serve/samples.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast::serve {
namespace {

constexpr double kBin = 1e-3;

int bin_of(double value) { return static_cast<int>(std::floor(std::log(value) / kBin)); }
double middle_of(std::ptrdiff_t bin) { return std::exp((static_cast<double>(bin) + 0.5) * kBin); }

}  // namespace

void Samples::add(double value, double weight) {
  weight_ += weight;
  sum_ += weight * value;
  if (is_binned_) {
    count(value, weight);
    return;
  }
  kept_.push_back({value, weight});
  if (kept_.size() <= kMostKept) return;
  is_binned_ = true;
  for (const Weighted& w : kept_) count(w.value, w.weight);
  kept_.clear();
  kept_.shrink_to_fit();
}

void Samples::count(double value, double weight) {
  if (!(value > 0)) {
    zeros_ += weight;
    return;
  }
  const int bin = bin_of(value);
  if (bins_.empty()) first_bin_ = bin;
  if (bin < first_bin_) {
    bins_.insert(bins_.begin(), static_cast<std::size_t>(first_bin_ - bin), 0.0);
    first_bin_ = bin;
  }
  const auto at = static_cast<std::size_t>(bin - first_bin_);
  if (at >= bins_.size()) bins_.resize(at + 1);
  bins_[at] += weight;
}

double Samples::quantile_of(std::vector<Weighted> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double all = 0;
  for (const Weighted& w : values) all += w.weight;
  double below = 0;
  for (const Weighted& w : values) {
    below += w.weight;
    if (below >= q * all * (1 - 1e-12)) return w.value;
  }
  return values.back().value;
}

double Samples::quantile(double q) const {
  if (!is_binned_) return quantile_of(kept_, q);
  const double least = q * weight_ * (1 - 1e-12);
  double below = zeros_;
  if (zeros_ > 0 && below >= least) return 0;
  double value = 0;
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    if (!(bins_[i] > 0)) continue;
    below += bins_[i];
    value = middle_of(first_bin_ + static_cast<std::ptrdiff_t>(i));
    if (below >= least) break;
  }
  return value;
}

template <class Statistic>
double Samples::half_width(const Statistic& statistic) const {
  constexpr std::size_t kBatches = 10;
  constexpr double kStudent = 1.833;  // 95 % of t with 9 degrees of freedom
  if (kept_.size() < 10 * kBatches) return 0;
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < kBatches; ++i) {
    const auto at = [&](std::size_t b) {
      return kept_.begin() + static_cast<std::ptrdiff_t>(kept_.size() * b / kBatches);
    };
    const double value = statistic(std::vector<Weighted>(at(i), at(i + 1)));
    sum += value;
    squares += value * value;
  }
  const double n = kBatches, variance = std::max(0.0, (squares - sum * sum / n) / (n - 1));
  return kStudent * std::sqrt(variance / n);
}

double Samples::mean_half_width() const {
  return half_width([](const std::vector<Weighted>& values) {
    double weight = 0, sum = 0;
    for (const Weighted& w : values) {
      weight += w.weight;
      sum += w.weight * w.value;
    }
    return sum / weight;
  });
}

double Samples::quantile_half_width(double q) const {
  return half_width(
      [q](std::vector<Weighted> values) { return quantile_of(std::move(values), q); });
}

Uncertainty uncertainty_of(const Samples& s) {
  return {s.mean(),
          s.quantile(0.5),
          s.quantile(0.9),
          s.quantile(0.99),
          s.mean_half_width(),
          s.quantile_half_width(0.5),
          s.quantile_half_width(0.9),
          s.quantile_half_width(0.99)};
}

}  // namespace tracecast::serve
