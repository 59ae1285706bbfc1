#include "sim/cost/price.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "sim/cost/tile_gemm.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

// A GEMM's roofs meet softly; compute_time is the compute roof alone.
double compute_us(const Kernel& kernel, const GpuSpec& gpu, const CostProfile& profile) {
  return estimate(kernel, gpu, profile).compute_time.in_us();
}
double duration_us(const Kernel& kernel, const GpuSpec& gpu, const CostProfile& profile) {
  return estimate(kernel, gpu, profile).duration.in_us();
}

ConvAttributes layer(std::int64_t n, std::int64_t c, std::int64_t hw, std::int64_t k,
                     std::int64_t rs) {
  return {.n = n,
          .c = c,
          .h = hw,
          .w = hw,
          .k = k,
          .r = rs,
          .s = rs,
          .p = hw,
          .q = hw,
          .pad_top = static_cast<int>(rs / 2),
          .pad_left = static_cast<int>(rs / 2),
          .pad_bottom = static_cast<int>(rs / 2),
          .pad_right = static_cast<int>(rs / 2)};
}

TEST_SUITE("sim/cost/price") {
  TEST_CASE("streaming a gigabyte takes what the bandwidth says") {
    // 1 GB at 100 GB/s = 10 ms; L2 and issue roofs are a factor 50 away.
    CHECK(duration_us(stream(0.5e9, 0.5e9, 1e6), simple_gpu(), simple_profile()) ==
          doctest::Approx(10000.0).epsilon(0.001));
  }

  TEST_CASE("a footprint inside L2 is spared the DRAM") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "memory.l2_share", 1);
    profile = with_parameter(std::move(profile), "memory.l2_bytes_per_clock", 20);
    // 1 kB of 1 MB: nothing misses; 10 SMs x 20 B x 1 GHz = 200 GB/s -> 5 ns.
    const Kernel small = stream(500, 500, 1);
    CHECK(duration_us(small, simple_gpu(), profile) ==
          doctest::Approx(0.005).epsilon(0.01).scale(0));
  }

  TEST_CASE("an empty kernel takes the fill time and says so") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "kernel.fill_us", 2);
    const KernelEstimate e = estimate(stream(4, 4, 1), simple_gpu(), profile);
    CHECK(e.duration.in_us() == doctest::Approx(2.0).epsilon(0.001));
    CHECK(e.bound == Bound::Latency);
  }

  TEST_CASE("an empty kernel is a chain of instructions: slower where they and the clock are") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "kernel.fill_us", 1);
    profile = with_parameter(std::move(profile), "kernel.fill_latencies", 500);
    GpuSpec gpu = simple_gpu();  // 1 GHz
    const auto empty_us = [&] { return duration_us(stream(4, 4, 1), gpu, profile); };
    gpu.architecture = Architecture::Volta;  // 1 us and 500 times 4 cycles
    CHECK(empty_us() == doctest::Approx(3.0).epsilon(0.001));
    gpu.architecture = Architecture::Kepler;  // 9 cycles
    CHECK(empty_us() == doctest::Approx(5.5).epsilon(0.001));
    gpu = pinned_at(gpu, 500.0_MHz);
    CHECK(empty_us() == doctest::Approx(10.0).epsilon(0.001));
  }

  TEST_CASE("small tiles of a matrix library lose more on Kepler") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "gemm.tile_overhead", 0.25);
    profile = with_parameter(std::move(profile), "gemm.small_thread_tile_overhead", 1);
    // 32x32 tiles: 64/32 + 64/32 - 1 = 3 times the overhead on 16 us.
    GpuSpec gpu = simple_gpu();
    CHECK(compute_us(gemm(32, 32, 1000, 10), gpu, profile) ==
          doctest::Approx(16 * 1.75).epsilon(0.001));
    gpu.architecture = Architecture::Kepler;
    CHECK(compute_us(gemm(32, 32, 1000, 10), gpu, profile) ==
          doctest::Approx(16 * 4.0).epsilon(0.001));
  }

  TEST_CASE("a loop of launches costs as many times one of them") {
    Kernel one = stream(1e6, 1e6, 1e5);
    Kernel loop = stream(50e6, 50e6, 1e5);
    loop.launches = 50;
    const CostProfile& profile = default_cost_profile();
    CHECK(duration_us(loop, simple_gpu(), profile) ==
          doctest::Approx(50 * duration_us(one, simple_gpu(), profile)));
  }

  TEST_CASE("kernels of an old cuDNN are slower by what was measured") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "convolution.old_kernels", 0.5);
    Kernel kernel = convolution(layer(32, 64, 56, 64, 1), Algorithm::ImplicitPrecomputedGemm);
    const double now = compute_us(kernel, simple_gpu(), profile);
    std::get<ConvWork>(kernel.work).cudnn_version = 5.1;
    CHECK(compute_us(kernel, simple_gpu(), profile) == doctest::Approx(2 * now).epsilon(0.001));
  }

  TEST_CASE("ten tiles fill ten SMs; the eleventh costs a whole wave") {
    // 128x128 tile, k = 1000: 2 * 128 * 128 * 1000 / (128 GFLOP/s per SM) = 256 us a wave.
    // n = 128 leaves only shapes of the same area per SM or worse: smaller tiles at full efficiency
    // do not lose here, so GEMMs are batched to have no choice but whole tiles of 32 x 32 work:
    // 2*32*32*1000/128e9 = 16 us.
    const GpuSpec gpu = simple_gpu();
    CostProfile profile = simple_profile();
    const Kernel ten = gemm(32, 32, 1000, 10);
    const Kernel eleven = gemm(32, 32, 1000, 11);
    CHECK(compute_us(ten, gpu, profile) == doctest::Approx(16.0).epsilon(0.001));
    CHECK(compute_us(eleven, gpu, profile) == doctest::Approx(32.0).epsilon(0.001));
    profile = with_parameter(std::move(profile), "gemm.wave_quantization", 0.5);
    CHECK(compute_us(eleven, gpu, profile) ==
          doctest::Approx(16.0 * (0.5 * 2 + 0.5 * 1.1)).epsilon(0.001));
  }

  TEST_CASE("a block alone on its SM waits for its loads") {
    // 200 cycles a step at 1 GHz, 1000 steps: 200 us, though the arithmetic would take 16.
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "gemm.step_base_cycles", 200);
    const KernelEstimate e = estimate(gemm(32, 32, 1000, 2), simple_gpu(), profile);
    CHECK(e.compute_time.in_us() == doctest::Approx(200.0).epsilon(0.001));
    CHECK(e.bound == Bound::Latency);
  }

  TEST_CASE("a single short kernel runs before the power limit has slowed the board") {
    GpuSpec gpu = simple_gpu();
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "clock.burst_gain", 0.5);
    profile = with_parameter(std::move(profile), "clock.burst_span_ms", 1);
    const Kernel kernel = gemm(1280, 1280, 1280);
    const auto durations = [&](const Kernel& k) {
      const KernelEstimate e = estimate(k, gpu, profile);
      return std::pair(e.duration.in_ms(), burst_duration(e, profile).in_ms());
    };
    // Power to spare: no difference.
    const auto free = durations(kernel);
    CHECK(free.second == doctest::Approx(free.first).epsilon(1e-6));
    // A quarter of the clock (the knee's soft corner is 1e-8 away): 100 waves of 128 x 128 tiles at
    // 10 SMs' 0.32 TFLOP/s take 13.1 ms; gain = 1 + 0.5 * 0.75 / (1 + 13.1) = 1.0266.
    gpu.tdp = Watts(profile.clock.knee_w_per_tflops * 1.28 / 4);
    const auto [sustained, burst] = durations(kernel);
    CHECK(sustained == doctest::Approx(13.107).epsilon(0.001));
    CHECK(burst == doctest::Approx(13.107 / (1 + 0.375 / 14.107)).epsilon(0.001));
    // Streams do not need the clock.
    const auto moved = durations(stream(1e9, 1e9, 1e6));
    CHECK(moved.second == doctest::Approx(moved.first).epsilon(1e-4));
  }

  TEST_CASE("GEMMs and convolutions have block costs of their own") {
    CostProfile profile = simple_profile();
    const Kernel plain = gemm(32, 32, 1000, 10);
    Kernel im2col = plain;
    im2col.kernel_class = KernelClass::Convolution;
    // 16 us for 1000 steps, half as many again of prologue.
    profile = with_parameter(std::move(profile), "gemm.prologue_steps", 500);
    CHECK(compute_us(plain, simple_gpu(), profile) == doctest::Approx(24.0).epsilon(0.001));
    profile = with_parameter(std::move(profile), "convolution.explicit_gemm", 1);
    CHECK(compute_us(im2col, simple_gpu(), profile) == doctest::Approx(16.0).epsilon(0.001));
  }

  TEST_CASE("dp4a takes four elements of the inner dimension a step") {
    GpuSpec gpu = simple_gpu();
    gpu.peaks.push_back({Precision::Int8, MathUnit::CudaCore, 5.12_TFLOPps});
    CostProfile profile = simple_profile();
    Kernel eight_bit = gemm(32, 32, 1000, 10);
    eight_bit.math = eight_bit.data = Precision::Int8;
    // A wave of 16 us in fp32 (above); four times the rate.
    CHECK(compute_us(eight_bit, gpu, profile) == doctest::Approx(4.0).epsilon(0.001));
    // 250 steps of 200 cycles where loads decide.
    profile = with_parameter(std::move(profile), "gemm.step_base_cycles", 200);
    CHECK(compute_us(eight_bit, gpu, profile) == doctest::Approx(50.0).epsilon(0.001));
  }

  TEST_CASE("8-bit tensor-core steps are twice as deep as 16-bit ones") {
    Kernel kernel;
    kernel.unit = MathUnit::TensorCore;
    for (const auto& [math, depth] : {std::pair{Precision::Fp16, 1.0},
                                      {Precision::Bf16, 1.0},
                                      {Precision::Tf32, 1.0},
                                      {Precision::Int8, 2.0},
                                      {Precision::Fp8, 2.0}}) {
      kernel.math = math;
      CHECK(depth_per_step(kernel) == depth);
    }
  }

  TEST_CASE("tensor cores take the channels of a filter's tap in slices of 32 bytes") {
    const auto time = [](std::int64_t channels) {
      Kernel kernel = convolution(
          {.n = 64, .c = channels, .h = 32, .w = 32, .k = 64, .r = 3, .s = 3, .p = 32, .q = 32},
          Algorithm::ImplicitPrecomputedGemm);
      kernel.math = kernel.data = Precision::Fp16;
      kernel.unit = MathUnit::TensorCore;
      return compute_us(kernel, simple_gpu(), simple_profile());
    };
    CHECK(time(9) == doctest::Approx(time(16)));   // 16 halves are one slice
    CHECK(time(17) == doctest::Approx(time(32)));  // two
    CHECK(time(32) == doctest::Approx(2 * time(16)).epsilon(0.01));
  }

  TEST_CASE("a long inner dimension is split over idle SMs") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "gemm.step_base_cycles", 100);
    const Kernel one_tile = gemm(32, 32, 640000);
    // Unsplit: 640000 steps of 100 cycles = 64 ms. Split, at least 8 of 10 SMs help.
    CHECK(duration_us(one_tile, simple_gpu(), profile) < 64000.0 / 7);
  }

  TEST_CASE("a convolution's GEMM has the pixels, channels and filter that its pass says") {
    // Forward: m = 1280 pixels in 10 blocks of 128, n = 32 one block, k = 64*9 = 576:
    // one wave of 2*128*32*576/128e9 = 36.864 us.
    const ConvAttributes shape{
        .n = 5, .c = 64, .h = 16, .w = 16, .k = 32, .r = 3, .s = 3, .p = 16, .q = 16};
    const GpuSpec gpu = simple_gpu();
    const CostProfile profile = simple_profile();
    CHECK(compute_us(convolution(shape, Algorithm::ImplicitPrecomputedGemm), gpu, profile) ==
          doctest::Approx(36.864).epsilon(0.001));
  }

  TEST_CASE("a gradient of images may be scattered instead of gathered") {
    // Stride 4, 8x8 outputs of 20 images, 4x4 filter of 3 channels. Gathered: m = 20*32*32 = 160
    // blocks of 128, 16 waves, n = 3 padded to 32, k = 64*16 with the zeros between the outputs: 16
    // * 2*128*32*1024 / 128e9 = 1048.576 us. Scattered: m = 20*64 = 10 blocks, n = 48 padded to 64,
    // k = 64: 2*128*64*64 / 128e9 = 8.192 us, and 1280*48 additions of 4 L2 bytes at 512 * 10 SMs
    // bytes a clock = 0.048 us.
    const ConvAttributes shape{.n = 20,
                               .c = 3,
                               .h = 32,
                               .w = 32,
                               .k = 64,
                               .r = 4,
                               .s = 4,
                               .p = 8,
                               .q = 8,
                               .stride_h = 4,
                               .stride_w = 4};
    const GpuSpec gpu = simple_gpu();
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "convolution.backward_data", 1);
    profile = with_parameter(std::move(profile), "convolution.scatter_bytes", 4);
    const auto time = [&](Algorithm algorithm) {
      return compute_us(convolution(shape, algorithm, Pass::BackwardData), gpu, profile);
    };
    CHECK(time(Algorithm::ImplicitPrecomputedGemm) == doctest::Approx(1048.576).epsilon(0.001));
    CHECK(time(Algorithm::ImplicitGemm) == doctest::Approx(8.24).epsilon(0.001));
  }

  TEST_CASE("a gradient of weights cuts its pixels into hundreds of slices") {
    // Three tiles of 32x32 and 2^20 pixels on 256 SMs of 128 GFLOP/s: 256 slices of 4096 pixels,
    // three on each SM, 3*2*32*32*4096 / 128e9 = 196.608 us.
    GpuSpec gpu = simple_gpu();
    gpu.sm_count = 256;
    gpu.peaks = {{Precision::Fp32, MathUnit::CudaCore, 32.768_TFLOPps}};
    gpu.dram_bandwidth = 1e6_GBps;
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "convolution.backward_weights", 1);
    const ConvAttributes shape{.n = 16,
                               .c = 32,
                               .h = 256,
                               .w = 256,
                               .k = 32,
                               .s = 3,
                               .p = 256,
                               .q = 256,
                               .pad_left = 1,
                               .pad_right = 1};
    const Kernel kernel =
        convolution(shape, Algorithm::ImplicitPrecomputedGemm, Pass::BackwardWeights);
    CHECK(compute_us(kernel, gpu, profile) == doctest::Approx(196.608).epsilon(0.001));
  }

  TEST_CASE("a 1x1 filter's gradient takes four blocks an SM, and their sums pass through memory") {
    // 2^14 pixels, 256 x 256 filters, 10 SMs: 4 tiles of 128x128 in 16 slices are 7 waves, 8 of
    // 64x128 in 8 slices or 16 of 32x128 in 4 as well, of slices twice and four times as long: 7 *
    // 2*128*128*1024 / 128e9 = 1835 us for each. The first is taken: in memory twice 15 more
    // results of 2^16 weights beside the operands.
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "convolution.backward_weights", 1);
    profile = with_parameter(std::move(profile), "convolution.pointwise_backward_weights", 1);
    profile =
        with_parameter(std::move(profile), "convolution.tile_overhead", 0.1);  // smaller tiles lose
    const Kernel kernel = convolution(layer(16, 256, 32, 256, 1),
                                      Algorithm::ImplicitPrecomputedGemm, Pass::BackwardWeights);
    const KernelEstimate e = estimate(kernel, simple_gpu(), profile);
    CHECK(e.compute_time.in_us() == doctest::Approx(1835.0).epsilon(0.001));
    const double sums = 2.0 * 15 * 256 * 256 * 4;
    CHECK(e.memory_time.in_us() ==
          doctest::Approx((kernel.bytes().in_bytes() + sums) / 100e3).epsilon(0.001));
  }

  TEST_CASE("a block of a convolution starts and ends in the same cycles on few lanes and many") {
    CostProfile profile = simple_profile();
    const Kernel kernel =
        convolution(layer(10, 64, 16, 256, 1), Algorithm::ImplicitPrecomputedGemm);
    const Kernel single = convolution(layer(1, 64, 8, 32, 1), Algorithm::ImplicitPrecomputedGemm);
    GpuSpec wide = simple_gpu();
    wide.fp32_lanes_per_sm = 128;
    wide.peaks = {{Precision::Fp32, MathUnit::CudaCore, 2.56_TFLOPps}};
    const double cast_us = compute_us(kernel, simple_gpu(), profile);
    const double wide_us = compute_us(kernel, wide, profile);
    const double single_us = compute_us(single, simple_gpu(), profile);
    CHECK(cast_us == doctest::Approx(2 * wide_us).epsilon(0.001));
    // 40 blocks of 128 pixels by 128 channels, four an SM: 4 * 4000 cycles at 1 GHz. A single small
    // block: 4000.
    profile = with_parameter(std::move(profile), "convolution.prologue_cycles", 4000);
    CHECK(compute_us(kernel, simple_gpu(), profile) - cast_us ==
          doctest::Approx(16.0).epsilon(0.01));
    CHECK(compute_us(kernel, wide, profile) - wide_us == doctest::Approx(16.0).epsilon(0.01));
    CHECK(compute_us(single, simple_gpu(), profile) - single_us ==
          doctest::Approx(4.0).epsilon(0.01));
  }

  TEST_CASE("a single block waits for its generation's latencies") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "gemm.step_base_cycles", 40);
    profile = with_parameter(std::move(profile), "gemm.step_latencies", 10);
    profile = with_parameter(std::move(profile), "convolution.prologue_cycles", 4000);
    const auto prologue_us = [&](Architecture architecture, double waves) {
      GpuSpec gpu = simple_gpu();
      gpu.architecture = architecture;
      const SustainedGpu machine = sustain(gpu, Precision::Fp32, MathUnit::CudaCore, profile);
      return block_prologue(128 * 128, waves, machine, gpu, profile).in_us();
    };
    // 40 + 10 * 9, 6 and 4 cycles; two waves of large blocks hide it.
    CHECK(prologue_us(Architecture::Kepler, 1) == doctest::Approx(4.0 * 130 / 100));
    CHECK(prologue_us(Architecture::Maxwell, 1) == doctest::Approx(4.0));
    CHECK(prologue_us(Architecture::Volta, 0.5) == doctest::Approx(4.0 * 80 / 100));
    CHECK(prologue_us(Architecture::Volta, 2) == doctest::Approx(8.0));
  }

  TEST_CASE("cublasLt takes small tiles before Volta, where their loads tell") {
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "gemm.tile_overhead", 0.5);
    Kernel kernel = gemm(1280, 1280, 1280);
    GpuSpec gpu = simple_gpu();
    const auto with_lt = [&](bool by_cublas_lt) {
      std::get<MatrixWork>(kernel.work).by_cublas_lt = by_cublas_lt;
      return compute_us(kernel, gpu, profile);
    };
    // 128x128 tiles have no overhead, 64x64 and 128x32 tiles of 0.5 * 1 and 0.5 * 1.5.
    CHECK(with_lt(true) == doctest::Approx(with_lt(false)));
    gpu.architecture = Architecture::Pascal;
    CHECK(with_lt(true) == doctest::Approx(1.5 * with_lt(false)).epsilon(0.001));
  }

  TEST_CASE("long rows of both operands cost Pascal its page walks, and no other generation") {
    const CostProfile profile = simple_profile();
    Kernel kernel = gemm(12800, 1280, 32000);
    std::get<MatrixWork>(kernel.work).transpose_b = true;
    GpuSpec gpu = simple_gpu();
    const double plain = compute_us(kernel, gpu, profile);
    gpu.architecture = Architecture::Pascal;
    // Rows of 128 kB, 1.6 GB of them: 160 cycles for each element beside the 256 of the arithmetic
    // of a 128x128 tile.
    CHECK(compute_us(kernel, gpu, profile) ==
          doctest::Approx(plain * (1 + 0.625 / (1 + 1.0 / 67.1))).epsilon(0.002));
    // Columns of B run along n: half of it.
    std::get<MatrixWork>(kernel.work).transpose_b = false;
    CHECK(compute_us(kernel, gpu, profile) ==
          doctest::Approx(plain * (1 + 0.3125 / (1 + 1.0 / 67.1))).epsilon(0.01));
    Kernel low_precision = gemm(1280, 1280, 1280);
    const double short_rows = compute_us(low_precision, simple_gpu(), profile);
    CHECK(compute_us(low_precision, gpu, profile) == doctest::Approx(short_rows).epsilon(0.01));
  }

  TEST_CASE("fused Winograd counts blocks of 128 outputs by 32 channels") {
    // n = 10 images of 8x16 outputs: 10 blocks, one wave; c = 64: 2*32*128*4*64 / 128e9 = 16.384
    // us.
    const ConvAttributes shape{.n = 10,
                               .c = 64,
                               .h = 8,
                               .w = 16,
                               .k = 32,
                               .r = 3,
                               .s = 3,
                               .p = 8,
                               .q = 16,
                               .pad_top = 1,
                               .pad_left = 1,
                               .pad_bottom = 1,
                               .pad_right = 1};
    CHECK(compute_us(convolution(shape, Algorithm::WinogradFused), simple_gpu(),
                     simple_profile()) == doctest::Approx(16.384).epsilon(0.001));
  }

  TEST_CASE("more bandwidth, arithmetic or SMs never slow a kernel") {
    const CostProfile& profile = default_cost_profile();
    const Kernel kernels[] = {
        stream(1e8, 1e8, 1e7), gemm(1000, 1000, 1000), gemm(64, 1000, 4096),
        convolution(layer(32, 64, 56, 64, 3), Algorithm::WinogradFused),
        convolution(layer(32, 64, 56, 64, 3), Algorithm::ImplicitPrecomputedGemm)};
    for (const Kernel& kernel : kernels) {
      const GpuSpec gpu = simple_gpu();
      GpuSpec wider = gpu;
      wider.dram_bandwidth = gpu.dram_bandwidth * 2.0;
      CHECK(estimate(kernel, wider, profile).duration <= estimate(kernel, gpu, profile).duration);
      GpuSpec faster = gpu;
      faster.boost_clock = gpu.boost_clock * 2.0;
      for (PeakRate& peak : faster.peaks) peak.rate = peak.rate * 2.0;
      CHECK(estimate(kernel, faster, profile).duration <= estimate(kernel, gpu, profile).duration);
    }
  }

  TEST_CASE("doubling the batch never makes a convolution cheaper") {
    const CostProfile& profile = default_cost_profile();
    const GpuSpec gpu = simple_gpu();
    for (const Algorithm algorithm : {Algorithm::ImplicitGemm, Algorithm::ImplicitPrecomputedGemm,
                                      Algorithm::WinogradFused, Algorithm::Direct}) {
      for (const Pass pass : {Pass::Forward, Pass::BackwardData, Pass::BackwardWeights}) {
        double last = 0;
        for (std::int64_t n = 1; n <= 4096; n *= 2) {
          const double now =
              duration_us(convolution(layer(n, 96, 14, 200, 3), algorithm, pass), gpu, profile);
          CAPTURE(to_string(algorithm));
          CAPTURE(n);
          CHECK(now >= last * (1 - 1e-9));
          last = now;
        }
      }
    }
  }

  TEST_CASE("extreme shapes stay finite and positive") {
    const CostProfile& profile = default_cost_profile();
    const std::int64_t huge = std::int64_t{1} << 31;
    const Kernel kernels[] = {
        gemm(1, 1, 1),
        gemm(huge, 1, 1),
        gemm(1, 1, huge),
        gemm(huge, huge, huge),
        stream(0, 0, 0),
        stream(1e18, 1e18, 1e18),
        convolution(layer(1, 1, 1, 1, 1), Algorithm::Direct),
        convolution(layer(huge, 1, 1, 1, 1), Algorithm::ImplicitGemm, Pass::BackwardWeights),
        convolution(layer(1, huge, 1, huge, 1), Algorithm::WinogradNonfused),
        convolution(layer(1, 3, 1, 1, 3), Algorithm::Fft)};
    for (const Kernel& kernel : kernels) {
      const KernelEstimate e = estimate(kernel, simple_gpu(), profile);
      CHECK(std::isfinite(e.duration.in_s()));
      CHECK(e.duration > Seconds(0.0));
      CHECK(e.log_sd > 0);
    }
  }

  TEST_CASE("the fastest eligible candidate is taken") {
    const CostProfile profile = simple_profile();
    const GpuSpec gpu = simple_gpu();
    LoweredOp op;
    op.candidates = {{Algorithm::ImplicitGemm, {stream(3e8, 0, 1)}, Bytes(0)},
                     {Algorithm::Fft, {stream(1e8, 0, 1), stream(5e7, 0, 1)}, Bytes(1e9)},
                     {Algorithm::WinogradFused, {stream(2e8, 0, 1)}, Bytes(1e6)}};
    op.workspace_limit = Bytes(1e10);
    CHECK(choose(op, gpu, profile).candidate->algorithm == Algorithm::Fft);
    CHECK(choose(op, gpu, profile).estimates.size() == 2);
    CHECK(choose(op, gpu, profile).duration.in_us() == doctest::Approx(1500.0).epsilon(0.01));
    op.workspace_limit = Bytes(1e8);
    CHECK(choose(op, gpu, profile).candidate->algorithm == Algorithm::WinogradFused);
    op.candidates = {{Algorithm::Fft, {stream(1e8, 0, 1)}, Bytes(1e9)}};
    CHECK(choose(op, gpu, profile).candidate->algorithm == Algorithm::Fft);
    op.candidates = {Candidate{}};
    CHECK(choose(op, gpu, profile).duration == Seconds(0.0));
    op.candidates.clear();
    CHECK_THROWS_AS((void)choose(op, gpu, profile), InternalError);
  }

  TEST_CASE("the basis says what was measured") {
    CostProfile profile = default_cost_profile();
    GpuSpec gpu = simple_gpu();
    Kernel kernel = stream(1e6, 1e6, 1e6);
    CHECK(estimate(kernel, gpu, profile).basis ==
          Basis::Transferred);  // Volta took part in the fit
    gpu.architecture = Architecture::Blackwell;
    CHECK(estimate(kernel, gpu, profile).basis == Basis::Spec);
    profile.measured_gpu = gpu.id;
    CHECK(estimate(kernel, gpu, profile).basis == Basis::Measured);
    kernel.is_bounded_guess = true;
    CHECK(estimate(kernel, gpu, profile).basis == Basis::Unknown);
    CHECK(estimate(kernel, gpu, profile).log_sd >
          estimate(stream(1, 1, 1), gpu, default_cost_profile()).log_sd);
  }
}

}  // namespace
}  // namespace tracecast::cost
