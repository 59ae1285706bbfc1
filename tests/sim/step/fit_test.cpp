#include <doctest/doctest.h>

#include <cmath>

#include "sim/step/memory/fit.hpp"

namespace tracecast::test {
namespace {

TEST_SUITE_BEGIN("step/fit");

TEST_CASE("the probability of fitting is the normal one of the ratio") {
  // ln(1.1) / 0.05 = 1.906: Phi = 0.97167.
  const MemoryFit fit = memory_fit(Bytes(10e9), Bytes(10e9), Bytes(11e9), 0.05);
  CHECK(fit.probability == doctest::Approx(0.97168).epsilon(1e-3));
  CHECK(fit.needed.value == 10e9);
  CHECK(fit.needed.low == doctest::Approx(10e9 * std::exp(-1.645 * 0.05)).epsilon(1e-3));
  CHECK(fit.needed.high == doctest::Approx(10e9 * std::exp(1.645 * 0.05)).epsilon(1e-3));
  CHECK(memory_fit(Bytes(5e9), Bytes(5e9), Bytes(5e9), 0.1).probability == doctest::Approx(0.5));
}

TEST_CASE("what is spared when memory runs out does not count against a job") {
  // It likes 12 GB, gets by with 10.
  const MemoryFit fit = memory_fit(Bytes(12e9), Bytes(10e9), Bytes(11e9), 0.05);
  CHECK(fit.probability > kSurelyFits);
  CHECK(fit.needed.value == 12e9);
}

TEST_CASE("verdicts by probability") {
  CHECK(fit_words(1) == "fits");
  CHECK(fit_words(0.95) == "fits");
  CHECK(fit_words(0.804) == "fits with 80 %");
  CHECK(fit_words(0.5) == "fits with 50 %");
  CHECK(fit_words(0.4999) == "likely does not fit (49 %)");
  CHECK(fit_words(0.2) == "likely does not fit (20 %)");
  CHECK(fit_words(0.049) == "does not fit");
}

TEST_CASE("a share of the memory is planned with") {
  CHECK(share_to_plan_with(0.5, 0.1) == doctest::Approx(1));
  CHECK(share_to_plan_with(0.95, 0.1) == doctest::Approx(std::exp(-0.16449)).epsilon(1e-4));
  // What just fits that share fits the device with that probability.
  const double share = share_to_plan_with(0.95, 0.07);
  const MemoryFit fit = memory_fit(Bytes(share * 8e9), Bytes(share * 8e9), Bytes(8e9), 0.07);
  CHECK(fit.probability == doctest::Approx(0.95).epsilon(1e-6));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
