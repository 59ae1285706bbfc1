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
    // 10 SMs x 4 schedulers x 32 threads at 1 GHz: 1280 instructions of a thread a ns. 1.28e9 windows of 9 cells take
    // 32 x 11.5 each: 368 ms; and one five-hundred-and-twelfth of a cycle on each of 10 SMs: 0.25 ms.
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
