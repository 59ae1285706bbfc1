#include "sim/serve/samples.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast::serve {
namespace {

constexpr double kBin = 1e-3;

int bin_of(double value) { return static_cast<int>(std::floor(std::log(value) / kBin)); }
double middle_of(std::ptrdiff_t bin) { return std::exp((static_cast<double>(bin) + 0.5) * kBin); }

}  // namespace

void Samples::add(double value, double weight, std::uint64_t times) {
  const Weighted added{value, weight, times};
  weight_ += added.total();
  sum_ += added.total() * value;
  if (is_binned_) {
    count(value, added.total());
    return;
  }
  kept_.push_back(added);
  kept_values_ += times;
  if (kept_values_ <= kMostKept) return;
  is_binned_ = true;
  for (const Weighted& w : kept_) count(w.value, w.total());
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
  for (const Weighted& w : values) all += w.total();
  double below = 0;
  for (const Weighted& w : values) {
    below += w.total();
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
  constexpr std::uint64_t kBatches = 10;
  constexpr double kStudent = 1.833;  // 95 % of t with 9 degrees of freedom
  if (is_binned_ || kept_values_ < 10 * kBatches) return 0;
  double sum = 0, squares = 0;
  auto entry = kept_.begin();
  std::uint64_t used = 0;  // of the entry's values, by the batches before
  for (std::uint64_t i = 0; i < kBatches; ++i) {
    std::uint64_t left = kept_values_ * (i + 1) / kBatches - kept_values_ * i / kBatches;
    std::vector<Weighted> batch;
    while (left > 0) {
      const std::uint64_t taken = std::min(left, entry->times - used);
      batch.push_back({entry->value, entry->weight, taken});
      left -= taken;
      used += taken;
      if (used == entry->times) {
        ++entry;
        used = 0;
      }
    }
    const double value = statistic(std::move(batch));
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(kBatches);
  const double variance = std::max(0.0, (squares - sum * sum / n) / (n - 1));
  return kStudent * std::sqrt(variance / n);
}

double Samples::mean_half_width() const {
  return half_width([](const std::vector<Weighted>& values) {
    double weight = 0, sum = 0;
    for (const Weighted& w : values) {
      weight += w.total();
      sum += w.total() * w.value;
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
