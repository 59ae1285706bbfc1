#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "sim/step/interval.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/step/interval");

TEST_CASE("what a class shares adds up, what is a shape's own and other classes in squares") {
  struct Row {
    const char* what;
    ErrorShare second;
    double sd;
  };
  // The first: half of the step, 20 % wrong, of which 12 % with all its class: its own part is 16
  // %.
  const ErrorShare first{KernelClass::Convolution, 1.0_ms, 0.20, 0.12};
  const Row rows[] = {
      // all of it together: 0.5 * 0.2 + 0.5 * 0.2 in both parts: sqrt(0.12^2 + 0.16^2)
      {"the same shape", first, 0.20},
      // a time of its own, nearly the same: shared 0.12; own 0.5 * 0.16 twice: sqrt(0.12^2 + 2 *
      // 0.08^2)
      {"another shape",
       {KernelClass::Convolution, Seconds(1.000001e-3), 0.20, 0.12},
       std::sqrt(0.0144 + 0.0128)},
      // nothing together: 0.1 twice
      {"another class", {KernelClass::Gemm, 1.0_ms, 0.20, 0.12}, std::sqrt(0.02)},
      // sqrt((0.5 * 0.12 + 0.5 * 0.2)^2 + (0.5 * 0.16)^2)
      {"all shared", {KernelClass::Convolution, 1.0_ms, 0.20, 0.20}, std::sqrt(0.0256 + 0.0064)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::array<ErrorShare, 2> kernels{first, row.second};
    CHECK(step_log_sd(kernels, 2.0_ms, Seconds(0), 0, 0) == doctest::Approx(row.sd).epsilon(1e-4));
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
