#include "sim/step/windows.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

/// The integral over time of a quantity that is constant inside each kernel and zero between
/// kernels, repeated with the step's period.
class PeriodicIntegral {
 public:
  PeriodicIntegral(const StepTimeline& timeline, std::span<const double> inside)
      : period_(timeline.step_time.in_s()) {
    double end = 0, sum = 0;
    at_.push_back({0, 0});
    for (std::size_t k = 0; k < timeline.kernels.size(); ++k) {
      const double start = std::max(timeline.kernels[k].start.in_s(), end);
      const double stop = std::max(timeline.kernels[k].end.in_s(), start);
      at_.push_back({start, sum});
      sum += (stop - start) * inside[k];
      at_.push_back({stop, sum});
      end = stop;
    }
    at_.push_back({period_, sum});
  }
  [[nodiscard]] double period() const { return period_; }
  /// Over one period.
  [[nodiscard]] double whole() const { return at_.back().sum; }
  /// From 0 to `time`.
  [[nodiscard]] double until(double time) const {
    const double periods = std::floor(time / period_);
    // A hair below zero where the parallel layout rounded up to a whole number.
    const double rest = std::max(0.0, time - periods * period_);
    const auto after = std::upper_bound(at_.begin(), at_.end(), rest,
                                        [](double t, const Point& p) { return t < p.time; });
    double value = at_.back().sum;
    if (after != at_.end()) {
      const Point& a = *(after - 1);
      const double width = after->time - a.time;
      value = a.sum + (width > 0 ? (after->sum - a.sum) * (rest - a.time) / width : 0.0);
    }
    return periods * at_.back().sum + value;
  }

 private:
  struct Point {
    double time, sum;
  };
  double period_;
  std::vector<Point> at_;
};

}  // namespace

Range Windows::range() const {
  Range range{.min = avg, .avg = avg, .max = avg};
  for (const double mean : means) {
    range.min = std::min(range.min, mean);
    range.max = std::max(range.max, mean);
  }
  return range;
}

Windows windows_of(const StepTimeline& timeline, std::span<const double> inside, Seconds width) {
  constexpr double kFewest = 64, kMost = 16384;
  const PeriodicIntegral integral(timeline, inside);
  Windows windows;
  if (!(integral.period() > 0)) return windows;
  windows.avg = integral.whole() / integral.period();
  const auto count =
      static_cast<int>(std::clamp(std::ceil(integral.period() / width.in_s()), kFewest, kMost));
  double before = 0;
  for (int w = 1; w <= count; ++w) {
    const double now = integral.until(w * width.in_s());
    windows.means.push_back((now - before) / width.in_s());
    before = now;
  }
  return windows;
}

}  // namespace tracecast
