#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "sim/cluster/interval.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/cluster/interval");

TEST_CASE("errors of one class add up, those of two classes in squares") {
  struct Row {
    const char* what;
    KernelClass second;
    double sd;
  };
  const Row rows[] = {
      // both halves of the step 20 % wrong together: 0.5 * 0.2 + 0.5 * 0.2
      {"the same class", KernelClass::Convolution, 0.2},
      // sqrt(0.1^2 + 0.1^2)
      {"another class", KernelClass::Gemm, std::sqrt(0.02)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::array<ErrorShare, 2> kernels{
        {{KernelClass::Convolution, 1.0_ms, 0.2}, {row.second, 1.0_ms, 0.2}}};
    CHECK(step_log_sd(kernels, 2.0_ms, Seconds(0), 0, 0) == doctest::Approx(row.sd));
  }
}

TEST_CASE("the host's part and the system's term come on top") {
  // half of the step is the host's, 40 % wrong: 0.2; the system 0.15: sqrt(0.04 + 0.0225) = 0.25
  CHECK(step_log_sd({}, 2.0_ms, 1.0_ms, 0.4, 0.15) == doctest::Approx(0.25));
  CHECK(step_log_sd({}, Seconds(0), Seconds(0), 0.4, 0.15) == doctest::Approx(0.15));
}

TEST_CASE("the interval is as wide upwards as downwards, as factors") {
  // 1.645 standard deviations of 0.1 on each side: exp(0.16449) = 1.17879
  const Interval interval = interval90(100, 0.1);
  CHECK(interval.value == 100);
  CHECK(interval.low == doctest::Approx(100 / 1.17879).epsilon(1e-5));
  CHECK(interval.high == doctest::Approx(100 * 1.17879).epsilon(1e-5));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
