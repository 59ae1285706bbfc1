#include "sim/base/random.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/base/random");

TEST_CASE("the sequence of a seed is the published one") {
  // SplitMix64 with seed 1234567, as listed with the reference implementation (Vigna,
  // splitmix64.c).
  Random random(1234567);
  const std::uint64_t published[] = {6457827717110365317U, 3203168211198807973U,
                                     9817491932198370423U, 4593380528125082431U,
                                     16408922859458223821U};
  for (const std::uint64_t expected : published) {
    CHECK(random.next() == expected);
  }
}

TEST_CASE("uniform numbers fill [0, 1) evenly") {
  Random random(1);
  constexpr int kDraws = 100'000;
  double sum = 0;
  double least = 1;
  double most = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = random.uniform();
    sum += draw;
    least = std::fmin(least, draw);
    most = std::fmax(most, draw);
  }
  CHECK(least >= 0.0);
  CHECK(most < 1.0);
  // The mean of n uniform draws has standard deviation 1 / sqrt(12 n) = 0.0009; five of those.
  CHECK(std::abs(sum / kDraws - 0.5) < 0.0046);
}

TEST_CASE("numbers below a bound reach every value and never the bound") {
  Random random(2);
  int counts[6] = {};
  for (int i = 0; i < 6000; ++i) {
    const std::uint64_t draw = random.below(6);
    REQUIRE(draw < 6);
    ++counts[draw];
  }
  // Each count is binomial(6000, 1/6): mean 1000, standard deviation 28.9; five of those.
  for (const int count : counts) CHECK(std::abs(count - 1000) < 145);
}

TEST_CASE("normal numbers have mean 0 and standard deviation 1") {
  Random random(3);
  constexpr int kDraws = 100'000;
  double sum = 0, squares = 0;
  int beyond_two = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = random.normal();
    sum += draw;
    squares += draw * draw;
    beyond_two += std::abs(draw) > 2 ? 1 : 0;
  }
  // Standard deviations of the mean, of the mean square (sqrt(2 / n)) and of the share beyond two
  // (4.55 %); five of each.
  CHECK(std::abs(sum / kDraws) < 5 * 0.00317);
  CHECK(std::abs(squares / kDraws - 1) < 5 * 0.00448);
  CHECK(std::abs(static_cast<double>(beyond_two) / kDraws - 0.0455) < 5 * 0.00066);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
