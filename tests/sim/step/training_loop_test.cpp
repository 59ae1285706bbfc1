#include "sim/step/training_loop.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/step/training_loop");

TEST_CASE("the host's work between steps adds up") {
  FrameworkProfile framework;
  framework.host.dispatch_per_op = Seconds(20e-6);
  framework.host.launch_per_kernel = Seconds(5e-6);
  const LoopContext context{.batch = 10, .weights = Bytes(1e6), .core_speed = Hertz(2e9)};
  struct Row {
    const char* what;
    LoopWork loop;
    double us;
  };
  const Row rows[] = {
      {"nothing", {}, 0},
      {"2e6 + 10 * 1e5 cycles at 2 GHz", {.cycles_per_step = 2e6, .cycles_per_sample = 1e5}, 1500},
      {"10 * (3 * 20 + 2 * 5)", {.ops_per_sample = 3, .kernels_per_sample = 2}, 700},
      {"two waits of 30", {.waits_at_end = 2}, 60},
      {"three more on the way", {.waits_at_end = 2, .waits_within_forward = 3}, 150},
      {"4 * 1 MB at 4 GB/s", {.weight_copies = 4, .copy_rate = BytesPerSecond(4e9)}, 1000},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(time_between_steps(row.loop, framework, context).in_us() == doctest::Approx(row.us));
  }
}

TEST_CASE("a loop that reads results back waits for the GPU") {
  const LoopContext context{.core_speed = Hertz(1e9)};
  CHECK_FALSE(in_loop({}, {}, context).host.synchronizes_each_step);
  CHECK(in_loop({}, {.waits_at_end = 1}, context).host.synchronizes_each_step);
  const FrameworkProfile clipped = in_loop({}, {.waits_per_update = true}, context);
  CHECK(clipped.host.updates_per_synchronization == 1);
  CHECK(clipped.host.synchronization == kWake);
}

TEST_CASE("the loop's kernels come before the step's and leave its overhead") {
  FrameworkProfile framework;
  framework.host.dispatch_per_op = Seconds(20e-6);
  framework.host.launch_per_kernel = Seconds(5e-6);
  StepProgram program;
  program.step_overhead = Seconds(1e-3);
  program.kernels = {{.duration = Seconds(1e-4)}, {.duration = Seconds(1e-5)}};
  program.ops = {{.first_kernel = 0, .num_kernels = 2}};
  const LoopWork loop{.ops_per_sample = 3, .kernels_per_sample = 2};
  // 4 samples: 12 ops of 20 us and 8 launches of 5 us are 280 us.
  CHECK(show_loop_kernels(loop, framework, {.batch = 4}, 1, program) == 8);
  CHECK(program.step_overhead.in_us() == doctest::Approx(720));
  CHECK(program.kernels.size() == 10);
  CHECK(program.kernels.front().duration.in_us() == doctest::Approx(10));
  CHECK(program.ops.size() == 9);
  CHECK(program.ops.front().dispatch.in_us() == doctest::Approx(30));
  CHECK(program.ops.back().first_kernel == 8);
}

TEST_CASE(
    "where results are read back within the forward pass, the loop's work falls between its "
    "parts") {
  FrameworkProfile framework;
  framework.host.dispatch_per_op = Seconds(20e-6);
  framework.host.synchronization = Seconds(50e-6);
  StepProgram program;
  program.step_overhead = Seconds(1e-3);
  for (std::uint32_t i = 0; i < 5; ++i) {  // 4 forward ops and another
    program.kernels.push_back({.duration = Seconds((i + 1) * 1e-4)});
    program.ops.push_back({.first_kernel = i, .num_kernels = 1});
  }
  const LoopWork loop{.waits_within_forward = 2,
                      .cycles_per_step = 4e5,
                      .ops_per_sample = 4,
                      .kernels_per_sample = 4};
  // 400 us of cycles, 4 ops of 20 and 2 waits of 50.
  CHECK(show_loop_kernels(loop, framework, {.batch = 1, .core_speed = Hertz(1e9)}, 4, program) ==
        4);
  CHECK(program.step_overhead.in_us() == doctest::Approx(420));
  const std::vector<double> kernels_us = {100, 100, 100, 200, 100, 100, 300, 400, 500};
  const std::vector<double> dispatch_us = {270, 20, 0, 0, 270, 20, 0, 0, 0};
  REQUIRE(program.ops.size() == kernels_us.size());
  for (std::size_t i = 0; i < kernels_us.size(); ++i) {
    CAPTURE(i);
    CHECK(program.ops[i].first_kernel == i);
    CHECK(program.kernels[i].duration.in_us() == doctest::Approx(kernels_us[i]));
    CHECK(program.ops[i].dispatch.in_us() == doctest::Approx(dispatch_us[i]));
    CHECK(program.ops[i].waits_for_gpu == (i == 0 || i == 4));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
