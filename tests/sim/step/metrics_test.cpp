#include <doctest/doctest.h>

#include "sim/step/metrics.hpp"

namespace tracecast {
namespace {

/// One kernel of `busy` at the start of every step of `step`.
StepTimeline one_kernel(Seconds busy, Seconds step) {
  StepTimeline timeline;
  timeline.step_time = step;
  timeline.kernel_busy = busy;
  timeline.kernels = {{Seconds(0), busy}};
  return timeline;
}

GpuSpec gpu_with_window(bool one_second) {
  GpuSpec gpu;
  gpu.has_utilization_window_1s = one_second;
  gpu.tdp = 300.0_W;
  gpu.idle_power = 50.0_W;
  return gpu;
}

TEST_SUITE_BEGIN("sim/step/metrics");

TEST_CASE("short steps give every sampling window the average") {
  const Range range = gpu_utilization(one_kernel(3.0_ms, 10.0_ms), gpu_with_window(true));
  CHECK(range.avg == doctest::Approx(0.3));
  CHECK(range.min == doctest::Approx(0.3));
  CHECK(range.max == doctest::Approx(0.3));
}

TEST_CASE("steps longer than a window show full and empty windows") {
  // 2 s busy, 2 s idle, windows of 1 s: full, full, empty, empty.
  const Range range = gpu_utilization(one_kernel(2.0_s, 4.0_s), gpu_with_window(true));
  CHECK(range.min == doctest::Approx(0.0));
  CHECK(range.avg == doctest::Approx(0.5));
  CHECK(range.max == doctest::Approx(1.0));
}

TEST_CASE("the sampling window is shorter since Volta") {
  // 0.5 s busy, 0.5 s idle: a window of 1 s averages it away, windows of 1/6 s do not.
  CHECK(gpu_utilization(one_kernel(0.5_s, 1.0_s), gpu_with_window(true)).max ==
        doctest::Approx(0.5));
  CHECK(gpu_utilization(one_kernel(0.5_s, 1.0_s), gpu_with_window(false)).max ==
        doctest::Approx(1.0));
}

TEST_CASE("a step of no length has no utilisation") {
  CHECK(gpu_utilization(StepTimeline{}, gpu_with_window(true)).avg == 0.0);
}

TEST_CASE("windows show what runs in them, all over a long step") {
  // 0.3 s busy of each second: windows of 0.1 s are busy or idle.
  const std::vector<double> watts{20};
  const Windows windows = windows_of(one_kernel(0.3_s, 1.0_s), watts, 0.1_s);
  CHECK(windows.means.size() == 64);
  CHECK(windows.range().min == doctest::Approx(0));
  CHECK(windows.range().avg == doctest::Approx(6));
  CHECK(windows.range().max == doctest::Approx(20));
  // Busy first, then idle for longer than 64 windows.
  CHECK(windows_of(one_kernel(10.0_s, 20.0_s), watts, 0.1_s).range().min == doctest::Approx(0));
}

TEST_CASE(
    "a window that ends with a step, but for rounding, reads nothing before the step's begin") {
  // 0.009 / 0.001 is nine exactly, 0.009 - 9 * 0.001 is below zero.
  const std::vector<double> watts{100};
  const Windows windows = windows_of(one_kernel(0.5_ms, 1.0_ms), watts, 0.009_s);
  for (const double mean : windows.means) CHECK(mean == doctest::Approx(50));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
