#include "sim/cost/streaming.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

double compute_us(const Kernel& kernel, const CostProfile& profile) {
  return estimate(kernel, simple_gpu(), profile).compute_time.in_us();
}

Kernel pooling(double windows, double cells, Pass pass = Pass::Forward) {
  Kernel kernel = stream(4 * windows, 4 * windows, windows);
  kernel.kernel_class = KernelClass::Pooling;
  kernel.pass = pass;
  std::get<StreamWork>(kernel.work).operations_per_element = cells;
  return kernel;
}

TEST_SUITE("sim/cost/streaming") {
  TEST_CASE("a pooling window costs the instructions of its cells and of 2.5 more") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.window_instructions", 32);
    // 10 SMs x 4 schedulers x 32 threads at 1 GHz: 1280 instructions of a thread a ns. 1.28e9
    // windows of 9 cells take 32 x 11.5 each: 368 ms; and one five-hundred-and-twelfth of a cycle
    // on each of 10 SMs: 0.25 ms.
    CHECK(compute_us(pooling(1.28e9, 9), profile) == doctest::Approx(368250.0));
    // Of 4 cells: 32 x 6.5 = 208.
    CHECK(compute_us(pooling(1.28e9, 4), profile) == doctest::Approx(208250.0));
    // The backward pass has no windows.
    CHECK(compute_us(pooling(1.28e9, 9, Pass::BackwardData), profile) < 50000.0);
  }

  TEST_CASE("addresses from strides take issue slots, alike in every number format") {
    Kernel kernel = stream(4e9, 4e9, 1.28e9);
    const double plain = compute_us(kernel, simple_profile());
    std::get<StreamWork>(kernel.work).instructions_per_element = 100;
    // 1.28e9 x 100 instructions at 1280 a ns: 100 ms.
    CHECK(compute_us(kernel, simple_profile()) - plain == doctest::Approx(100000.0));
    kernel.data = Precision::Fp16;
    CHECK(compute_us(kernel, simple_profile()) - plain == doctest::Approx(100000.0));
  }

  TEST_CASE(
      "a slice of L2 takes atomic additions one by one, and threads that run at once meet on few "
      "lines") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.addition_cycles", 2);
    // 10 SMs x 2048 threads at once; 1e6 bytes of L2 in slices of 96 KiB: 10.17 of them.
    struct Row {
      const char* what;
      double written, elements, additions, ms;
    };
    const double sixteenth = 16 * 20480;
    const Row rows[] = {
        // A sixteenth of 2048 bytes is one line: 1e9 additions of 2 ns.
        {"one line at a time", 2048, sixteenth, 1e9, 2000},
        // 8 lines: 0.786 a slice, sqrt(2 x 0.786 x ln 10.17) = 1.910 more on the fullest, of 8.
        {"eight lines at a time", 8 * 2048, sixteenth, 1e9, 2000 * (0.7864 + 1.9099) / 8},
        // Fewer threads than the GPU has meet on all of the result.
        {"all lines at once", 8 * 128, 20480, 1e9, 2000 * (0.7864 + 1.9099) / 8},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      Kernel kernel = stream(0, row.written, row.elements);
      std::get<StreamWork>(kernel.work).additions = row.additions;
      const double ms = estimate(kernel, simple_gpu(), profile).memory_time.in_us() / 1000;
      CHECK(ms == doctest::Approx(row.ms).epsilon(1e-3));
    }
    // Twice as wide numbers lie on twice as many lines, which are never slower.
    Kernel low_precision = stream(0, 4096, sixteenth), wide = stream(0, 8192, sixteenth);
    for (Kernel* kernel : {&low_precision, &wide})
      std::get<StreamWork>(kernel->work).additions = 1e9;
    CHECK(estimate(wide, simple_gpu(), profile).duration <=
          estimate(low_precision, simple_gpu(), profile).duration);
  }

  TEST_CASE("a kernel that streams keeps its clock where arithmetic would throttle") {
    GpuSpec gpu = simple_gpu();
    const CostProfile profile = simple_profile();
    const Kernel kernel = stream(4e9, 4e9, 1.28e9);
    const double cool = estimate(kernel, gpu, profile).compute_time.in_us();
    gpu.tdp = 5.0_W;  // of 1.28 TFLOP/s: far below the knee
    CHECK(sustain(gpu, Precision::Fp32, MathUnit::CudaCore, profile).clock_share < 0.5);
    CHECK(estimate(kernel, gpu, profile).compute_time.in_us() == doctest::Approx(cool));
  }
}

}  // namespace
}  // namespace tracecast::cost
