#include "sim/cost/reduction.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

double duration_us(const Kernel& kernel, const CostProfile& profile,
                   const GpuSpec& gpu = simple_gpu()) {
  return estimate(kernel, gpu, profile).duration.in_us();
}

/// Rows of 4-byte elements, read once and written once as far as `compulsory` counts.
Kernel rows_of(const ReductionWork& work) {
  Kernel kernel;
  kernel.kernel_class = KernelClass::Softmax;
  kernel.read = kernel.written =
      Bytes(4.0 * static_cast<double>(work.rows) * static_cast<double>(work.cols));
  kernel.work = work;
  return kernel;
}

TEST_SUITE("sim/cost/reduction") {
  TEST_CASE("row reductions re-read what does not fit into L2") {
    Kernel kernel;
    kernel.kernel_class = KernelClass::Normalization;
    kernel.read = Bytes(4e8);
    kernel.written = Bytes(4e8);
    kernel.work = ReductionWork{.rows = 1000, .cols = 100000, .passes = 3, .strided = true};
    // 1.2 GB at 100 GB/s = 12 ms.
    CHECK(duration_us(kernel, simple_profile()) == doctest::Approx(12000.0).epsilon(0.01));
  }

  TEST_CASE("a row is read again from L2 while the resident rows fit into it") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.row_l2_share", 2);
    // 10 SMs hold 16 blocks of 128 threads each: 160 rows. 1e5 rows of 1562.5 elements are 625 MB;
    // 160 of them are 1 MB, all of L2: of the third pass 1 / (1 + 2^2) misses, 1250 + 125 MB at 100
    // GB/s.
    Kernel kernel = rows_of({.rows = 100000, .cols = 1562, .passes = 3});
    CHECK(duration_us(kernel, profile) == doctest::Approx(13750.0 * 1562 / 1562.5).epsilon(0.002));
    // Four times the row: 1 / (1 + (2 / 4)^2) misses, 0.8 of the pass.
    kernel = rows_of({.rows = 100000, .cols = 6250, .passes = 3});
    CHECK(duration_us(kernel, profile) == doctest::Approx(10 * 4 * 1250.0 * 1.4).epsilon(0.002));
  }

  TEST_CASE("random numbers drawn in a row take the integer lanes") {
    Kernel kernel = rows_of({.rows = 100000, .cols = 1000, .passes = 2, .row_threads = 32});
    const double without = duration_us(kernel, simple_profile());
    kernel.flops = Flops(1e8 * 24);  // a row's own arithmetic
    CHECK(duration_us(kernel, simple_profile()) == doctest::Approx(without));
    // 10 SMs at 1 GHz, 64 results a cycle: 1e8 elements with 6400 more of them each take 1 s, and
    // half of the issue slots: (1^3 + 0.5^3)^(1/3).
    kernel.flops = Flops(1e8 * (24 + 6400));
    CHECK(duration_us(kernel, simple_profile()) == doctest::Approx(1e6 * 1.04).epsilon(0.002));
  }

  TEST_CASE("short rows cost the instructions that reduce them, whatever the bandwidth") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.row_block_instructions", 400);
    profile = with_parameter(std::move(profile), "memory.row_warp_instructions", 100);
    // 10 SMs x 4 schedulers at 1 GHz issue 40 instructions a ns. A million rows: 4 warps x 400 each
    // take 40 ms in blocks, 100 each 2.5 ms in warps; their 8 MB pass in 80 us.
    CHECK(duration_us(rows_of({.rows = 1000000, .cols = 1, .passes = 2}), profile) ==
          doctest::Approx(40000.0).epsilon(0.001));
    const Kernel warps = rows_of({.rows = 1000000, .cols = 1, .passes = 2, .row_threads = 32});
    CHECK(duration_us(warps, profile) == doctest::Approx(2500.0).epsilon(0.001));
    CHECK(estimate(warps, simple_gpu(), profile).bound == Bound::Compute);
    // Rows of four threads share a warp: an eighth of its instructions each.
    const Kernel shared = rows_of({.rows = 1000000, .cols = 1, .passes = 2, .row_threads = 4});
    CHECK(duration_us(shared, profile) == doctest::Approx(2500.0 / 8).epsilon(0.01));
  }

  TEST_CASE("instructions per element go with the operands") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.row_element_instructions", 960);
    // 32 million elements in and out: a million times 960 instructions at 40 a ns are 24 ms.
    Kernel kernel = rows_of({.rows = 1000, .cols = 32000, .passes = 2});
    CHECK(duration_us(kernel, profile) == doctest::Approx(24000.0).epsilon(0.001));
    kernel.read = kernel.read * 2.0;  // a gradient reads two
    CHECK(duration_us(kernel, profile) == doctest::Approx(36000.0).epsilon(0.001));
  }

  TEST_CASE("a few channels draw what their blocks have in flight, not the full bandwidth") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.block_bytes_per_clock", 10);
    // 1 channel of 4 MB in 3 passes: 12 MB at 10 B x 1 GHz = 1.2 ms; DRAM would give it in 0.12.
    const KernelEstimate e = estimate(
        rows_of({.rows = 1, .cols = 1000000, .passes = 3, .strided = true}), simple_gpu(), profile);
    CHECK(e.duration.in_us() == doctest::Approx(1200.0).epsilon(0.001));
    CHECK(e.bound == Bound::Latency);
    CHECK(e.sm_share == doctest::Approx(0.1));
  }

  TEST_CASE("a smaller block has fewer loads in flight, and more of them fit") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.block_bytes_per_clock", 10);
    // 256 threads for 1024: 4 MB at 2.5 B x 1 GHz = 1.6 ms.
    CHECK(duration_us(
              rows_of(
                  {.rows = 1, .cols = 1000000, .passes = 1, .strided = true, .block_threads = 256}),
              profile) == doctest::Approx(1600.0).epsilon(0.001));
    // 10 SMs hold 80 of them, 2048 threads each: 2000 channels are 25 turns of 1000 cycles.
    profile = with_parameter(std::move(profile), "memory.block_bytes_per_clock", 1000);
    profile = with_parameter(std::move(profile), "memory.block_pass_cycles", 1000);
    Kernel kernel = stream(4, 4, 1);
    kernel.work =
        ReductionWork{.rows = 2000, .cols = 1, .passes = 1, .strided = true, .block_threads = 256};
    CHECK(duration_us(kernel, profile) == doctest::Approx(25.0).epsilon(0.01));
  }

  TEST_CASE("many short rows of a batch norm wait for the latency of their blocks") {
    // 10 SMs hold 20 blocks of 1024 threads: 2000 channels are 100 turns of 3 passes of 1000 cycles
    // at 1 GHz.
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.block_pass_cycles", 1000);
    Kernel kernel = stream(4, 4, 1);
    kernel.work = ReductionWork{.rows = 2000, .cols = 1, .passes = 3, .strided = true};
    const KernelEstimate e = estimate(kernel, simple_gpu(), profile);
    CHECK(e.duration.in_us() == doctest::Approx(300.0).epsilon(0.01));
    CHECK(e.bound == Bound::Latency);
  }

  TEST_CASE("longer rows, more rows and more passes never cost less") {
    const CostProfile& profile = default_cost_profile();
    const ReductionWork base{.rows = 4096, .cols = 900, .passes = 3};
    for (const bool strided : {false, true}) {
      for (const int threads : {32, 512}) {
        ReductionWork work = base;
        work.strided = strided;
        work.row_threads = threads;
        const double start = duration_us(rows_of(work), profile);
        CAPTURE(strided);
        CAPTURE(threads);
        ReductionWork rows = work, cols = work, passes = work;
        rows.rows *= 2;
        cols.cols *= 2;
        passes.passes += 1;
        for (const ReductionWork& more : {rows, cols, passes}) {
          CHECK(duration_us(rows_of(more), profile) >= start);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tracecast::cost
