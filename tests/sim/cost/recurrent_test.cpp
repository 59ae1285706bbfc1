#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

/// Steps of one cell on the machine whose numbers divide by hand.
Kernel steps(std::int64_t count, std::int64_t batch, std::int64_t n, std::int64_t k) {
  Kernel kernel;
  kernel.kernel_class = KernelClass::Recurrent;
  kernel.work = RecurrentWork{.steps = count, .gemm = {.m = batch, .n = n, .k = k}};
  return kernel;
}

CostProfile profile_without_friction() {
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "recurrent.efficiency", 1);
  return profile;
}

TEST_SUITE_BEGIN("sim/cost/recurrent");

TEST_CASE("weights that do not fit in L2 are read in every step") {
  // 4096 x 1024 x 4 B = 16.8 MB at 100 GB/s is 167.8 us; 32 sequences of arithmetic, 268 MFLOP
  // at 1.28 TFLOP/s, is 210 us; together (1 + (167.8 / 210)^3)^(1/3) of it. L2 at 512 B per SM and
  // cycle adds next to nothing.
  const KernelEstimate e =
      estimate(steps(10, 32, 4096, 1024), simple_gpu(), profile_without_friction());
  CHECK(e.memory_time.in_us() == doctest::Approx(1677.7).epsilon(0.01));
  CHECK(e.compute_time.in_us() == doctest::Approx(2097.0).epsilon(0.05));
  const double together = 2097.0 * std::cbrt(1 + std::pow(1677.7 / 2097.0, 3));
  CHECK(e.duration.in_us() == doctest::Approx(together).epsilon(0.05));
}

TEST_CASE("weights that fit in L2 cost no memory traffic after the first step") {
  CostProfile profile = profile_without_friction();
  profile = with_parameter(std::move(profile), "memory.l2_share", 1);
  GpuSpec gpu = simple_gpu();
  gpu.l2 = Bytes(100e6);  // against 16.8 MB of weights: 1 / (1 + 35) still misses
  const KernelEstimate e = estimate(steps(10, 32, 4096, 1024), gpu, profile);
  CHECK(e.memory_time.in_us() < 1677.7 / 20);
}

TEST_CASE("steps follow one another, and each pays for two kernels") {
  CostProfile profile = profile_without_friction();
  const double one = estimate(steps(1, 8, 512, 128), simple_gpu(), profile).duration.in_us();
  CHECK(estimate(steps(50, 8, 512, 128), simple_gpu(), profile).duration.in_us() ==
        doctest::Approx(50 * one));
  profile = with_parameter(std::move(profile), "kernel.fill_us", 3);
  CHECK(estimate(steps(50, 8, 512, 128), simple_gpu(), profile).duration.in_us() ==
        doctest::Approx(50 * (one + 6)));
}

TEST_CASE(
    "on Kepler a step waits for every element of the inner dimension, unless it has one row") {
  CostProfile profile = profile_without_friction();
  profile = with_parameter(std::move(profile), "gemm.step_base_cycles", 200);
  profile = with_parameter(std::move(profile), "memory.l2_share", 1);
  GpuSpec gpu = simple_gpu();
  const auto step_us = [&](std::int64_t rows) {
    Kernel kernel = steps(1, rows, 320, 1000);
    std::get<RecurrentWork>(kernel.work).may_split_k = true;
    return estimate(kernel, gpu, profile).duration.in_us();
  };
  CHECK(step_us(2) < 100);
  gpu.architecture = Architecture::Kepler;
  // 1000 steps of 200 cycles at 1 GHz.
  CHECK(step_us(2) == doctest::Approx(200).epsilon(0.01));
  CHECK(step_us(8) == doctest::Approx(step_us(2)).epsilon(0.01));
  CHECK(step_us(1) < 100);
}

TEST_CASE("cells side by side cost no more than one after the other, and at least one") {
  for (const std::int64_t hidden : {64, 256, 1024}) {
    CAPTURE(hidden);
    Kernel kernel = steps(20, 16, 4 * hidden, hidden);
    const Seconds one = estimate(kernel, simple_gpu(), profile_without_friction()).duration;
    std::get<RecurrentWork>(kernel.work).cells = 4;
    const Seconds four = estimate(kernel, simple_gpu(), profile_without_friction()).duration;
    CHECK(four >= one);
    CHECK(four.in_us() <= doctest::Approx(4 * one.in_us()));
  }
}

TEST_CASE("a persistent kernel reads its weights once") {
  CostProfile profile = profile_without_friction();
  profile = with_parameter(std::move(profile), "recurrent.persistent_efficiency", 1);
  profile = with_parameter(std::move(profile), "recurrent.persistent_step_us", 0.5);
  Kernel kernel = steps(1000, 1, 2048, 512);
  std::get<RecurrentWork>(kernel.work).persistent = true;
  const KernelEstimate e = estimate(kernel, simple_gpu(), profile);
  // 4.2 MB at 100 GB/s once: 41.9 us. Each step: 2.1 MFLOP at 1.28 TFLOP/s, 1.64 us; 2 KiB to 10
  // SMs at 5.12 TB/s, 0.004 us; the barrier 0.5 us.
  CHECK(e.duration.in_us() == doctest::Approx(41.9 + 1000 * (1.638 + 0.004 + 0.5)).epsilon(0.005));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::cost
