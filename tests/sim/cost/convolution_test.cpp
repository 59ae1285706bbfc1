#include "sim/cost/convolution.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "sim/cost/issue.hpp"
#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

namespace tracecast::cost {
namespace {

TEST_SUITE_BEGIN("sim/cost/convolution");

GpuSpec with_lanes(int lanes_per_scheduler, Architecture architecture) {
  GpuSpec gpu = simple_gpu();
  gpu.architecture = architecture;
  gpu.fp32_lanes_per_sm = 4 * lanes_per_scheduler;
  return gpu;
}

ConvAttributes same_size(std::int64_t n, std::int64_t c, std::int64_t hw, std::int64_t k,
                         std::int64_t rs) {
  ConvAttributes a;
  a.n = n, a.c = c, a.k = k, a.h = a.w = a.p = a.q = hw, a.r = a.s = rs;
  a.pad_top = a.pad_left = a.pad_bottom = a.pad_right = static_cast<int>(rs / 2);
  return a;
}

double compute_us(const Kernel& kernel, const GpuSpec& gpu, const CostProfile& profile) {
  return estimate(kernel, gpu, profile).compute_time.in_us();
}

TEST_CASE("issue slots cost where no pipe cycle hides them") {
  // Cycles of a multiply-add of 32 threads: 32 / lanes. The third power of 2 is 8: (8 + 8)^(1/3) =
  // 2 * 1.26.
  const CostProfile profile = simple_profile();
  const struct {
    const char* what;
    int lanes;
    double issue_cycles, share;
  } rows[] = {{"nothing to issue", 32, 0, 1},
              {"16 lanes, two cycles each", 16, 2, 0.7937},
              {"32 lanes, one cycle each", 32, 1, 0.7937},
              {"the same cycle hidden under 16 lanes: 2 / 9^(1/3)", 16, 1, 0.9615},
              {"and wanting under 48: (2/3) / (8/27 + 1)^(1/3)", 48, 1, 0.6114}};
  for (const auto& row : rows) {
    CAPTURE(row.what);
    CHECK(issue_efficiency(with_lanes(row.lanes, Architecture::Pascal), row.issue_cycles,
                           profile) == doctest::Approx(row.share).epsilon(0.001));
  }
}

TEST_CASE("the issue limit of 32 lanes since Ampere is charged once") {
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "clock.dense_factor", 0.9);
  const double once = issue_efficiency(with_lanes(32, Architecture::Pascal), 1, profile);
  CHECK(issue_efficiency(with_lanes(32, Architecture::Ampere), 1, profile) ==
        doctest::Approx(once / 0.9));
  CHECK(issue_efficiency(with_lanes(32, Architecture::Ampere), 0, profile) == 1);
  CHECK(issue_efficiency(with_lanes(16, Architecture::Ampere), 1, profile) ==
        issue_efficiency(with_lanes(16, Architecture::Volta), 1, profile));
}

TEST_CASE("Kepler runs compiled kernels whatever the algorithm") {
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "convolution.compiled_issue", 1.5);
  profile = with_parameter(std::move(profile), "convolution.assembled_issue", 0.5);
  const ConvAttributes shape = same_size(32, 64, 32, 64, 3);
  const Kernel plain = convolution(shape, Algorithm::ImplicitGemm);
  const Kernel precomputed = convolution(shape, Algorithm::ImplicitPrecomputedGemm);
  const GpuSpec kepler = with_lanes(48, Architecture::Kepler);
  const GpuSpec maxwell = with_lanes(32, Architecture::Maxwell);
  CHECK(compute_us(precomputed, kepler, profile) == compute_us(plain, kepler, profile));
  CHECK(compute_us(precomputed, maxwell, profile) < compute_us(plain, maxwell, profile));
}

/// Compute time of a pass of 64 images, 32 by 32, 64 channels, on tensor cores.
double tensor_core_us(Pass pass, std::int64_t filter, int stride, const CostProfile& profile) {
  ConvAttributes shape = same_size(64, 64, 32, 64, filter);
  shape.stride_h = shape.stride_w = stride;
  shape.p = shape.q = 32 / stride;
  Kernel kernel = convolution(shape, Algorithm::ImplicitPrecomputedGemm, pass);
  kernel.math = kernel.data = Precision::Fp16;
  kernel.unit = MathUnit::TensorCore;
  return compute_us(kernel, simple_gpu(), profile);
}

TEST_CASE("a strided gradient of the image costs every cell the most taps that one cell has") {
  const CostProfile profile = simple_profile();
  const auto of_data = [&](std::int64_t filter, int stride) {
    return tensor_core_us(Pass::BackwardData, filter, stride, profile);
  };
  const double one_tap = of_data(1, 1);
  CHECK(of_data(3, 1) == doctest::Approx(9 * one_tap));
  // 3x3, stride 2: cells meet 4, 2, 2 or 1 taps; 5x5: 9, 6, 6 or 4.
  CHECK(of_data(3, 2) == doctest::Approx(4 * one_tap));
  CHECK(of_data(5, 2) == doctest::Approx(9 * one_tap));
  // One tap of stride 2 reaches a quarter of the cells; the others are cleared (models/lowering).
  CHECK(of_data(1, 2) == doctest::Approx(one_tap / 4).epsilon(0.02));
}

TEST_CASE("tensor cores have backward factors of their own, one for all filters") {
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "tensor.step_cycles",
                           0.1);  // no latency that factors leave
  profile = with_parameter(std::move(profile), "tensor.backward_data", 1);
  profile = with_parameter(std::move(profile), "tensor.backward_weights", 1);
  const double data = tensor_core_us(Pass::BackwardData, 3, 1, profile);
  const double weights = tensor_core_us(Pass::BackwardWeights, 1, 1, profile);
  profile = with_parameter(std::move(profile), "tensor.backward_data", 0.5);
  profile = with_parameter(std::move(profile), "tensor.backward_weights", 0.25);
  // Those of the lanes say nothing.
  profile = with_parameter(std::move(profile), "convolution.backward_data", 0.2);
  profile = with_parameter(std::move(profile), "convolution.backward_weights", 0.2);
  profile = with_parameter(std::move(profile), "convolution.pointwise_backward_weights", 0.2);
  CHECK(tensor_core_us(Pass::BackwardData, 3, 1, profile) == doctest::Approx(2 * data));
  CHECK(tensor_core_us(Pass::BackwardWeights, 1, 1, profile) == doctest::Approx(4 * weights));
}

TEST_CASE("the first library for Ampere has slower kernels on its tensor cores") {
  // Efficiency 1 and 0.77 of it, where nothing but arithmetic counts.
  GpuSpec ampere = simple_gpu(), volta = simple_gpu();
  ampere.architecture = Architecture::Ampere;
  volta.architecture = Architecture::Volta;
  const auto us = [](const GpuSpec& gpu, double version) {
    Kernel kernel = convolution(same_size(64, 256, 28, 256, 3), Algorithm::ImplicitPrecomputedGemm,
                                Pass::Forward);
    kernel.unit = MathUnit::TensorCore;
    kernel.data = kernel.math = Precision::Fp16;
    std::get<ConvWork>(kernel.work).cudnn_version = version;
    return compute_us(kernel, gpu, simple_profile());
  };
  CHECK(us(ampere, 8.0) / us(ampere, 8.1) == doctest::Approx(1 / 0.77).epsilon(0.02));
  CHECK(us(ampere, 99) == us(ampere, 8.1));
  CHECK(us(volta, 8.0) == us(volta, 8.1));
}

/// Compute time of a pass of 64 images, 32 by 32, 3x3 filters, on tensor cores where nothing but
/// multiply-adds counts.
double cast_us(Pass pass, std::int64_t channels, std::int64_t groups, double version,
               Precision math = Precision::Fp16) {
  ConvAttributes shape = same_size(64, channels, 32, channels, 3);
  shape.groups = groups;
  Kernel kernel = convolution(shape, Algorithm::ImplicitPrecomputedGemm, pass);
  kernel.unit = MathUnit::TensorCore;
  kernel.data = kernel.math = math;
  std::get<ConvWork>(kernel.work).cudnn_version = version;
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "tensor.tile_overhead", 0);
  profile = with_parameter(std::move(profile), "tensor.step_cycles", 0.1);
  return compute_us(kernel, simple_gpu(), profile);
}

TEST_CASE("a tile of 32 channels has nothing to fill up, in libraries that have one") {
  // Half the channels in and out: a quarter of the work, or half where tiles are 64 wide.
  const double wide = cast_us(Pass::Forward, 64, 1, 8.9);
  CHECK(cast_us(Pass::Forward, 32, 1, 8.9) == doctest::Approx(wide / 4).epsilon(0.02));
  CHECK(cast_us(Pass::Forward, 32, 1, 8.0) == doctest::Approx(wide / 2).epsilon(0.02));
  CHECK(cast_us(Pass::Forward, 64, 1, 8.0) == wide);
}

TEST_CASE("groups share a tile on tensor cores, each with an instruction's depth") {
  // 32 groups of 4 channels: 128 columns 9 x 16 deep in place of 9 x 128. Before, each group filled
  // 64 columns.
  const double whole = cast_us(Pass::Forward, 128, 1, 8.9);
  CHECK(cast_us(Pass::Forward, 128, 32, 8.9) == doctest::Approx(whole / 8).epsilon(0.02));
  CHECK(cast_us(Pass::Forward, 128, 32, 8.0) == doctest::Approx(2 * whole).epsilon(0.02));
  CHECK(cast_us(Pass::BackwardData, 128, 32, 8.9) * 8 ==
        doctest::Approx(cast_us(Pass::BackwardData, 128, 1, 8.9)).epsilon(0.02));
  // Of a gradient of weights, 16 rows by 16 columns for each of 9 taps: tiles of 64 by 144, filled
  // up to 64 by 192 of 1152.
  CHECK(cast_us(Pass::BackwardWeights, 128, 32, 8.9) * 6 ==
        doctest::Approx(cast_us(Pass::BackwardWeights, 128, 1, 8.9)).epsilon(0.02));
  // Groups as wide as a tile share none; kernels for groups are those of 16 bits.
  CHECK(cast_us(Pass::Forward, 128, 2, 8.9) == cast_us(Pass::Forward, 128, 2, 8.0));
  CHECK(cast_us(Pass::Forward, 128, 32, 8.9, Precision::Tf32) >
        8 * cast_us(Pass::Forward, 128, 32, 8.9));
}

TEST_CASE("few channels of an image are filled up to four or eight, in libraries that have that") {
  const auto us = [](std::int64_t channels, double version) {
    ConvAttributes shape = same_size(64, 64, 32, 64, 4);
    shape.c = channels;
    Kernel kernel = convolution(shape, Algorithm::ImplicitPrecomputedGemm, Pass::Forward);
    kernel.unit = MathUnit::TensorCore;
    kernel.data = kernel.math = Precision::Fp16;
    std::get<ConvWork>(kernel.work).cudnn_version = version;
    CostProfile profile = simple_profile();
    profile = with_parameter(std::move(profile), "tensor.tile_overhead", 0);
    profile = with_parameter(std::move(profile), "tensor.step_cycles", 0.1);
    profile = with_parameter(std::move(profile), "tensor.prologue_steps", 0.001);
    return compute_us(kernel, simple_gpu(), profile);
  };
  // 16 taps of 4, 8 or 16 values.
  const double whole = us(16, 8.9);
  CHECK(us(3, 8.9) == doctest::Approx(whole / 4).epsilon(0.01));
  CHECK(us(8, 8.9) == doctest::Approx(whole / 2).epsilon(0.01));
  CHECK(us(9, 8.9) == doctest::Approx(whole).epsilon(0.01));
  CHECK(us(3, 8.0) == doctest::Approx(whole).epsilon(0.01));
}

TEST_CASE("rate-limited tensor cores hide what keeps whole ones waiting") {
  // GA102's GeForce: half of what its tensor cores could do, 1,024 operations an SM and clock.
  const auto gpu_of = [](double share) {
    GpuSpec gpu = simple_gpu();
    gpu.compute_capability = 86;
    const double whole = 1024.0 * gpu.sm_count * gpu.boost_clock.in_si();
    gpu.peaks.back() = {Precision::Fp16, MathUnit::TensorCore, FlopsPerSecond(whole * share)};
    return gpu;
  };
  const auto us = [&](double share, double efficiency) {
    ConvAttributes shape = same_size(64, 256, 32, 256, 3);
    Kernel kernel = convolution(shape, Algorithm::ImplicitPrecomputedGemm, Pass::Forward);
    kernel.unit = MathUnit::TensorCore;
    kernel.data = kernel.math = Precision::Fp16;
    CostProfile profile = simple_profile();
    for (const char* name : {"tensor.convolution.ampere", "tensor.convolution.volta"}) {
      profile = with_parameter(std::move(profile), name, efficiency);
    }
    return compute_us(kernel, gpu_of(share), profile);
  };
  const double whole = us(1, 0.9) / us(1, 0.6), cut = us(0.5, 0.9) / us(0.5, 0.6);
  CHECK(whole == doctest::Approx(0.6 / 0.9).epsilon(0.01));
  CHECK(cut > whole);
  CHECK(cut < 1);
  CHECK(us(0.5, 0.6) < 2 * us(1, 0.6));
}

TEST_CASE("cuDNN 8.0 fills up the columns of groups on Turing") {
  GpuSpec turing = simple_gpu(), volta = simple_gpu();
  turing.architecture = Architecture::Turing;
  volta.architecture = Architecture::Volta;
  const auto us = [](const GpuSpec& gpu, std::int64_t groups, double version) {
    ConvAttributes shape = same_size(64, 128, 28, 128, 3);
    shape.groups = groups;
    Kernel kernel = convolution(shape, Algorithm::ImplicitPrecomputedGemm, Pass::Forward);
    std::get<ConvWork>(kernel.work).cudnn_version = version;
    return compute_us(kernel, gpu, simple_profile());
  };
  CHECK(us(turing, 32, 8.0) > 1.5 * us(turing, 32, 7.6));
  CHECK(us(turing, 32, 8.1) == us(turing, 32, 7.6));
  CHECK(us(turing, 1, 8.0) == us(turing, 1, 7.6));
  CHECK(us(volta, 32, 8.0) == us(volta, 32, 7.6));
}

TEST_CASE("an engine's blocks of few channels divide k where the grid leaves SMs alone") {
  // A step of a block alone waits 400 cycles.
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "gemm.step_base_cycles", 400);
  const auto us = [&](std::int64_t images, bool is_engine, Algorithm algorithm) {
    Kernel kernel = convolution(same_size(images, 2048, 7, 128, 1), algorithm);
    kernel.is_chained = is_engine;
    return compute_us(kernel, simple_gpu(), profile);
  };
  constexpr Algorithm kPrecomputed = Algorithm::ImplicitPrecomputedGemm;
  const double library = us(1, false, kPrecomputed), engine = us(1, true, kPrecomputed);
  CHECK(engine < 0.6 * library);
  CHECK(engine > 0.2 * library);
  // Four groups of warps take a quarter of the steps; nothing is gained where SMs are full.
  CHECK(us(512, true, kPrecomputed) == us(512, false, kPrecomputed));
}

TEST_CASE("a depthwise output costs the loads of its filter's taps") {
  // 10 images of 100 channels of 10x10 outputs, 9 taps: 900 thousand taps at 0.5 cycles on 10 SMs
  // of 1 GHz = 45 us. A stride of 2 loads twice as many transactions for each.
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "convolution.direct_cycles", 0.5);
  ConvAttributes shape = same_size(10, 100, 10, 100, 3);
  shape.groups = 100;
  CHECK(compute_us(convolution(shape, Algorithm::Direct), simple_gpu(), profile) ==
        doctest::Approx(45.0));
  const auto gradient_us = [&](Pass pass) {
    return compute_us(convolution(shape, Algorithm::Direct, pass), simple_gpu(), profile);
  };
  CHECK(gradient_us(Pass::BackwardData) == doctest::Approx(2.35 * 45));
  CHECK(gradient_us(Pass::BackwardWeights) == doctest::Approx(3.2 * 45));
  shape.stride_h = shape.stride_w = 2;
  shape.h = shape.w = 20;
  CHECK(compute_us(convolution(shape, Algorithm::Direct), simple_gpu(), profile) ==
        doctest::Approx(90.0));
  // Four times the cells, each of which looks at all taps; the weights' gradient visits the same
  // outputs.
  CHECK(gradient_us(Pass::BackwardData) == doctest::Approx(4 * 2.35 * 45));
  CHECK(gradient_us(Pass::BackwardWeights) == doctest::Approx(3.2 * 45));
}

TEST_CASE("fused Winograd works on the channels of one group at a time") {
  // 10 images of 8x16 outputs, 128 -> 64 channels: 10 * 2 blocks of 128 channels deep, two waves.
  // In two groups each block is half as deep and there are as many of them: half the time.
  ConvAttributes shape = same_size(10, 128, 16, 64, 3);
  shape.h = shape.p = 8;
  const double whole =
      compute_us(convolution(shape, Algorithm::WinogradFused), simple_gpu(), simple_profile());
  CHECK(whole == doctest::Approx(2 * 32.768).epsilon(0.001));  // 2*32*128*4*128 / 128e9 a wave
  shape.groups = 2;
  CHECK(compute_us(convolution(shape, Algorithm::WinogradFused), simple_gpu(), simple_profile()) ==
        doctest::Approx(whole / 2).epsilon(0.001));
}

TEST_CASE("blocks of fused Winograd are those that the kernels' names say") {
  // Blocks of 128 outputs that 1280 images of 32 channels need, ten to a wave, 2*32*128*4*8 flop at
  // 128 GFLOP/s each.
  const struct {
    const char* what;
    Architecture architecture;
    double cudnn_version;
    std::int64_t pixels;
    double blocks_per_image;
  } rows[] = {
      {"tile148: one block of 8x16", Architecture::Volta, 7.6, 7, 1},
      {"7 rows of 8 by 4 columns of 16", Architecture::Volta, 7.6, 56, 28},
      {"Kepler's kernel alike", Architecture::Kepler, 7.6, 14, 2},
      {"tile418: 7 rows of 2, 4 images", Architecture::Pascal, 7.6, 14, 7 / 4.0},
      {"tile228: 7 rows of 4 by 2 columns of 16, 2 images", Architecture::Maxwell, 7.6, 28, 7},
      {"tile244 of cuDNN 8: 7 by 7 of 8x8, 2 images", Architecture::Pascal, 8.9, 56, 49 / 2.0},
      {"tile442: 1 by 2 of 8x4, 4 images", Architecture::Ampere, 8.9, 7, 2 / 4.0}};
  for (const auto& row : rows) {
    CAPTURE(row.what);
    Kernel kernel = convolution(same_size(1280, 8, row.pixels, 32, 3), Algorithm::WinogradFused);
    std::get<ConvWork>(kernel.work).cudnn_version = row.cudnn_version;
    GpuSpec gpu = simple_gpu();
    gpu.architecture = row.architecture;
    CHECK(compute_us(kernel, gpu, simple_profile()) ==
          doctest::Approx(128 * row.blocks_per_image * 2.048).epsilon(0.001));
  }
}

TEST_CASE("a block of several images is not for a batch that they do not divide") {
  // 14 x 14 outputs: 2 blocks of 8x16 an image, or 7 of 2x16 for four; 7 x 7 in 8x8 for two.
  const struct {
    std::int64_t images, pixels;
    double blocks;
  } rows[] = {{1284, 14, 1284 * 7 / 4.0},
              {1282, 14, 1282 * 2},
              {1281, 14, 1281 * 2},
              {1300, 7, 1300 / 2.0},
              {1281, 7, 1281}};
  GpuSpec gpu = simple_gpu();
  gpu.architecture = Architecture::Pascal;
  for (const auto& row : rows) {
    CAPTURE(row.images);
    CAPTURE(row.pixels);
    Kernel kernel =
        convolution(same_size(row.images, 8, row.pixels, 32, 3), Algorithm::WinogradFused);
    std::get<ConvWork>(kernel.work).cudnn_version = 8.9;
    CHECK(compute_us(kernel, gpu, simple_profile()) ==
          doctest::Approx(row.blocks / 1280 * 128 * 2.048).epsilon(0.01));
  }
}

TEST_CASE("the transforms' additions cost fused Winograd as many cycles whoever wrote the loop") {
  // Issue cycles of 1 and 1.5 with 0.5 more: 32 lanes 1 / (1 + 1.5^3)^(1/3), Kepler's 48 (2/3) /
  // (8/27 + 2^3)^(1/3).
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "convolution.assembled_issue", 1);
  profile = with_parameter(std::move(profile), "convolution.compiled_issue", 1.5);
  const Kernel kernel = convolution(same_size(1280, 8, 16, 32, 3), Algorithm::WinogradFused);
  const auto slower = [&](const GpuSpec& gpu) {
    profile = with_parameter(std::move(profile), "convolution.winograd_issue", 0);
    const double without = compute_us(kernel, gpu, profile);
    profile = with_parameter(std::move(profile), "convolution.winograd_issue", 0.5);
    return compute_us(kernel, gpu, profile) / without;
  };
  CHECK(slower(with_lanes(32, Architecture::Maxwell)) ==
        doctest::Approx(std::cbrt((1 + 1.5 * 1.5 * 1.5) / (1 + 1))).epsilon(0.001));
  CHECK(slower(with_lanes(48, Architecture::Kepler)) ==
        doctest::Approx(std::cbrt((8 / 27.0 + 8) / (8 / 27.0 + 1.5 * 1.5 * 1.5))).epsilon(0.001));
}

TEST_CASE("a GEMM of spectra is four real ones on tiles of 64 or 32") {
  // 10 frequencies of 64x64 complex numbers by 1000: 8 * 64 * 64 * 1000 / 128e9 = 256 us each, one
  // an SM.
  Kernel kernel = gemm(64, 64, 4000, 10);
  kernel.kernel_class = KernelClass::Convolution;
  kernel.algorithm = Algorithm::FftTiling;
  CHECK(compute_us(kernel, simple_gpu(), simple_profile()) == doctest::Approx(256.0).epsilon(0.01));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::cost
