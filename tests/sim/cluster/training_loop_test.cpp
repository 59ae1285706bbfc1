#include "sim/cluster/training_loop.hpp"

#include <doctest/doctest.h>

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/cluster/training_loop");

TEST_CASE("the host's work between steps adds up") {
  FrameworkProfile framework;
  framework.dispatch_per_op = Seconds(20e-6);
  framework.launch_per_kernel = Seconds(5e-6);
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
      {"4 * 1 MB at 4 GB/s", {.weight_copies = 4, .copy_rate = BytesPerSecond(4e9)}, 1000},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(time_between_steps(row.loop, framework, context).in_us() == doctest::Approx(row.us));
  }
}

TEST_CASE("a loop that reads results back waits for the GPU") {
  const LoopContext context{.core_speed = Hertz(1e9)};
  CHECK_FALSE(in_loop({}, {}, context).synchronizes_each_step);
  CHECK(in_loop({}, {.waits_at_end = 1}, context).synchronizes_each_step);
  const FrameworkProfile clipped = in_loop({}, {.waits_per_update = true}, context);
  CHECK(clipped.updates_per_synchronization == 1);
  CHECK(clipped.synchronization == kWake);
}

TEST_CASE("the loop's kernels come before the step's and leave its overhead") {
  FrameworkProfile framework;
  framework.dispatch_per_op = Seconds(20e-6);
  framework.launch_per_kernel = Seconds(5e-6);
  StepProgram program;
  program.step_overhead = Seconds(1e-3);
  program.kernels = {{.duration = Seconds(1e-4)}, {.duration = Seconds(1e-5)}};
  program.ops = {{.first_kernel = 0, .num_kernels = 2}};
  const LoopWork loop{.ops_per_sample = 3, .kernels_per_sample = 2};
  // 4 samples: 12 ops of 20 us and 8 launches of 5 us are 280 us.
  CHECK(show_loop_kernels(loop, framework, {.batch = 4}, program) == 8);
  CHECK(program.step_overhead.in_us() == doctest::Approx(720));
  CHECK(program.kernels.size() == 10);
  CHECK(program.kernels.front().duration.in_us() == doctest::Approx(10));
  CHECK(program.ops.size() == 9);
  CHECK(program.ops.front().dispatch.in_us() == doctest::Approx(30));
  CHECK(program.ops.back().first_kernel == 8);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
