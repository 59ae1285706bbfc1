#include "sim/serve/samples.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/base/random.hpp"

namespace tracecast::test {
namespace {

using serve::Samples;

TEST_SUITE_BEGIN("sim/serve/samples");

TEST_CASE("quantiles of few values are values; of many within a thousandth") {
  Samples few;
  for (const double v : {4.0, 1.0, 3.0, 2.0}) few.add(v);
  CHECK(few.quantile(0.5) == 2);
  CHECK(few.quantile(0.51) == 3);
  CHECK(few.quantile(0.99) == 4);
  CHECK(few.mean() == 2.5);
  Samples many;
  for (int i = 1; i <= 400'000; ++i) many.add(i);
  CHECK(many.quantile(0.9) == doctest::Approx(360'000).epsilon(0.002));
  CHECK(many.mean() == 200'000.5);
}

TEST_CASE("weights count as often as they say") {
  Samples samples;
  samples.add(1, 9);
  samples.add(5, 1);
  CHECK(samples.quantile(0.9) == 1);
  CHECK(samples.quantile(0.91) == 5);
  CHECK(samples.mean() == 1.4);
}

TEST_CASE(
    "the confidence interval of the mean holds it nine times of ten, and shrinks with the root of "
    "the values") {
  int held = 0;
  double low_precision = 0, wide = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    Samples samples;
    for (int i = 0; i < 1000; ++i) samples.add(random.uniform());
    wide += samples.mean_half_width();
    if (std::abs(samples.mean() - 0.5) <= samples.mean_half_width()) ++held;
    for (int i = 0; i < 15'000; ++i) samples.add(random.uniform());
    low_precision += samples.mean_half_width();
  }
  CHECK(held >= 168);  // 180 of 200 expected, 4 either way
  CHECK(held <= 192);
  CHECK(wide / low_precision == doctest::Approx(4).epsilon(0.15));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
