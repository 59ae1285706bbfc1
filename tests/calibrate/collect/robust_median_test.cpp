#include "calibrate/collect/robust_median.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace tracecast::calibrate {
namespace {

std::vector<Seconds> us(std::initializer_list<double> values) {
  std::vector<Seconds> result;
  for (const double value : values) result.push_back(Seconds(value * 1e-6));
  return result;
}

TEST_SUITE_BEGIN("calibrate/collect/robust_median");

TEST_CASE("the median is the middle value, or the mean of the two middle ones") {
  CHECK(robust_median(us({5})).median.in_us() == doctest::Approx(5));
  CHECK(robust_median(us({9, 1, 5})).median.in_us() == doctest::Approx(5));
  CHECK(robust_median(us({9, 1, 5, 7})).median.in_us() == doctest::Approx(6));
}

TEST_CASE("the standard error is half the span of the order statistics a binomial deviation away") {
  // n = 9: c = 4, r = 1.5, so x[2] to x[6]: 98 to 102 of 100.
  const auto nine = us({96, 97, 98, 99, 100, 101, 102, 103, 104});
  const RobustMedian m = robust_median(nine);
  CHECK(m.relative_error == doctest::Approx(0.02));
  CHECK(m.outliers == 0);
}

TEST_CASE("an outlier moves neither the median nor its error") {
  const RobustMedian plain = robust_median(us({96, 97, 98, 99, 100, 101, 102, 103, 104}));
  const RobustMedian with = robust_median(us({96, 97, 98, 99, 100, 101, 102, 103, 1000}));
  CHECK(with.median == plain.median);
  CHECK(with.relative_error == doctest::Approx(plain.relative_error));
  CHECK(with.outliers == 1);
}

TEST_CASE("two modes show in the error, also when one value decides which is the median") {
  CHECK(robust_median(us({80, 120, 80, 120, 80, 120, 80, 120, 80})).relative_error ==
        doctest::Approx(20.0 / 80));
}

TEST_CASE("of fewer than three values no error is known") {
  CHECK(std::isinf(robust_median(us({1})).relative_error));
  CHECK(std::isinf(robust_median(us({1, 1})).relative_error));
  CHECK(robust_median(us({1, 1, 1})).relative_error == 0);
}

}  // namespace
}  // namespace tracecast::calibrate
