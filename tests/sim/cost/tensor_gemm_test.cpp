#include "sim/cost/tensor_gemm.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/random.hpp"
#include "sim/cost/price.hpp"
#include "sim/cost/tensor_board.hpp"
#include "tests/sim/cost/simple_machine.hpp"

TEST_SUITE_BEGIN("sim/cost/gemm");

namespace tracecast::cost {
namespace {

TensorGemm shape(double m, double n, double k, GemmFormat format = GemmFormat::Half) {
  TensorGemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.format = format;
  return gemm;
}

GemmEstimate price(const TensorGemm& gemm, const GpuSpec& gpu, const CostProfile& profile) {
  return TensorGemmMachine(gpu, gemm.format, profile).estimate(gemm);
}

GpuSpec fast_memory() {
  GpuSpec gpu = simple_gpu();
  gpu.dram_bandwidth = BytesPerSecond(1e15);
  return gpu;
}

/// `gpu` with twice of everything that a data sheet states.
GpuSpec twice(GpuSpec gpu) {
  gpu.sm_count *= 2;
  gpu.base_clock = gpu.base_clock * 2.0;
  gpu.boost_clock = gpu.boost_clock * 2.0;
  gpu.application_clock = gpu.application_clock * 2.0;
  for (PeakRate& peak : gpu.peaks) peak.rate = peak.rate * 2.0;
  gpu.l2 = gpu.l2 * 2.0;
  gpu.dram_bandwidth = gpu.dram_bandwidth * 2.0;
  gpu.tdp = gpu.tdp * 2.0;
  gpu.idle_power = gpu.idle_power * 2.0;
  gpu.id = "tomorrow";
  return gpu;
}

TensorGemm random_gemm(Random& random) {
  const auto size = [&](double low, double high) {
    return std::floor(low * std::exp(random.uniform() * std::log(high / low)));
  };
  TensorGemm gemm = shape(size(1, 16384), size(32, 16384), size(32, 16384));
  constexpr std::array kFormats = {GemmFormat::Half, GemmFormat::Fp8, GemmFormat::Fp8Block,
                                   GemmFormat::Fp4, GemmFormat::Int8Weights};
  gemm.format = kFormats[static_cast<std::size_t>(random.uniform() * 5)];
  return gemm;
}

}  // namespace

TEST_CASE("a full wave of large tiles runs at the peak") {
  // 2560 x 128 in 10 tiles of 256 x 128, one to each SM of 1.024 TFLOP/s: 2 * 256 * 128 * 1024
  // / 1.024e12 = 65.5 us.
  const GemmEstimate one = price(shape(2560, 128, 1024), fast_memory(), simple_profile());
  CHECK(one.duration.in_us() == doctest::Approx(65.536).epsilon(0.02));
  CHECK(one.roofs.sm_share == 1);
}

TEST_CASE("rows past a full wave cost several times their share") {
  // 16 rows more are 0.6 % more; smaller tiles on all SMs hold them for 3 %.
  const GpuSpec gpu = fast_memory();
  const CostProfile profile = simple_profile();
  const double full = price(shape(2560, 128, 1024), gpu, profile).duration.in_us();
  const double more = price(shape(2576, 128, 1024), gpu, profile).duration.in_us();
  CHECK(more > full * 1.02);
}

TEST_CASE("few rows stream their weights from memory, or from L2 where they stay") {
  GpuSpec gpu = simple_gpu();
  CostProfile profile = simple_profile();
  TensorGemm gemm = shape(1, 4096, 4096);
  // 4096^2 weights of 2 bytes at 97 GB/s, beside the arithmetic of 64 tiles of 32 x 64 in 7 waves,
  // 115 us.
  const double memory = 4096.0 * 4096 * 2 / 97e3, mma = 7 * 2.0 * 32 * 64 * 4096 / 1.024e6;
  CHECK(price(gemm, gpu, profile).duration.in_us() ==
        doctest::Approx(std::cbrt(std::pow(memory, 3) + std::pow(mma, 3))).epsilon(0.01));
  gemm.reuse = {.activations = 1, .weights = 1, .results = 1};
  CHECK(price(gemm, gpu, profile).duration.in_us() == doctest::Approx(mma).epsilon(0.02));
}

TEST_CASE(
    "ECC takes its part of the bandwidth where data and its checks share the memory's lines") {
  CostProfile profile = with_parameter(
      with_parameter(simple_profile(), "tensor_gemm.ecc_cost", 0.5), "tensor_gemm.gddr", 1);
  const auto memory_us = [&](MemoryType type, bool ecc) {
    GpuSpec gpu = simple_gpu();
    gpu.memory_type = type;
    gpu.ecc_default_on = ecc;
    gpu.ecc_bandwidth_fraction = 0.8;
    return price(shape(1, 4096, 4096), gpu, profile).roofs.memory.in_us();
  };
  // Half of a fifth.
  CHECK(memory_us(MemoryType::Gddr6, true) * 0.9 ==
        doctest::Approx(memory_us(MemoryType::Gddr6, false)));
  // HBM keeps the checks beside the data.
  CHECK(memory_us(MemoryType::Hbm2, true) == memory_us(MemoryType::Hbm2, false));
}

TEST_CASE("a small grid draws no more than its blocks can") {
  GpuSpec gpu = fast_memory();
  CostProfile profile = simple_profile();
  profile = with_parameter(std::move(profile), "tensor_gemm.stream_bytes_per_clock", 1);
  // A tile of 32 x 64 alone: 96 rows of 2 bytes for each of 8192 values of k, at 96 bytes a clock
  // of 1 GHz.
  const double time = price(shape(16, 64, 8192), gpu, profile).duration.in_us();
  const double load = 96.0 * 2 * 8192 / 96e3, mma = 2.0 * 32 * 64 * 8192 / 1.024e6;
  CHECK(time == doctest::Approx(std::cbrt(load * load * load + mma * mma * mma)).epsilon(0.01));
}

TEST_CASE("tiles and slices go through k in whole steps of an instruction") {
  const GpuSpec gpu = fast_memory();
  CostProfile profile = simple_profile();
  const auto us = [&](double m, double n, double k) {
    return price(shape(m, n, k), gpu, profile).duration.in_us();
  };
  // 10 tiles of 256 x 128 on 10 SMs; steps of 16 halves: 1009 to 1024 are 64 of them.
  const double whole = us(2560, 128, 1024);
  for (const double k : {1009, 1016, 1023}) {
    CAPTURE(k);
    CHECK(us(2560, 128, k) == doctest::Approx(whole).epsilon(1e-4));
  }
  CHECK(us(2560, 128, 1025) == doctest::Approx(whole * 65 / 64).epsilon(1e-3));
  // One tile in 8 slices of 130 values or of 140: 9 steps each.
  profile = with_parameter(std::move(profile), "tensor_gemm.split_us", 0);
  REQUIRE(price(shape(32, 64, 1040), gpu, profile).split_k == 8);
  REQUIRE(price(shape(32, 64, 1120), gpu, profile).split_k == 8);
  CHECK(us(32, 64, 1040) == doctest::Approx(us(32, 64, 1120)).epsilon(1e-3));
}

TEST_CASE("the power limit slows arithmetic and not memory") {
  GpuSpec gpu = fast_memory();
  const CostProfile profile = simple_profile();
  const TensorGemm large = shape(8192, 8192, 8192);
  const double free = price(large, gpu, profile).duration.in_us();
  gpu.tdp = 5.0_W;
  const GemmEstimate limited = price(large, gpu, profile);
  CHECK(limited.duration.in_us() > 1.5 * free);
  CHECK(limited.power.in_w() <= 5.0);
  gpu.dram_bandwidth = BytesPerSecond(1e8);
  const TensorGemm skinny = shape(1, 8192, 8192);
  const GemmEstimate bound = price(skinny, gpu, profile);
  CHECK(bound.roofs.memory > bound.roofs.compute * 10.0);
}

TEST_CASE("an engine's call adds its kernels and quantises what it reads") {
  const GpuSpec gpu = GpuCatalog::embedded().find("h100_sxm5_80gb");
  const CostProfile& profile = default_cost_profile();
  TensorGemm gemm = shape(16, 4096, 4096, GemmFormat::Fp8);
  const Seconds alone = price(gemm, gpu, profile).duration;
  gemm.engine = GemmEngine::TensorRtLlm;
  CHECK(price(gemm, gpu, profile).duration > alone);
}

TEST_CASE("rows begin at the largest power of two that divides them, up to a vector of 16 bytes") {
  CHECK(row_alignment(4096, 2) == 16);
  CHECK(row_alignment(50257, 2) == 2);
  CHECK(row_alignment(30522, 2) == 4);
  CHECK(row_alignment(1000, 2) == 16);
  CHECK(row_alignment(50257, 4) == 4);
  CHECK(row_alignment(2704, 1) == 16);
  CHECK(row_alignment(2703, 1) == 1);
  CHECK(row_alignment(24, 0.5) == 8);  // half bytes as whole ones
}

TEST_CASE(
    "unaligned rows take kernels of warp-level instructions, odd ones staged through registers") {
  CostProfile profile = simple_profile();
  profile.tensor_gemm.unaligned = 0.5;
  profile.tensor_gemm.unaligned_staged = 0.25;
  profile.tensor_gemm.warp_share = 0.6;
  const auto seconds = [&](int capability, double alignment) {
    GpuSpec gpu = fast_memory();
    gpu.compute_capability = capability;
    for (PeakRate& peak : gpu.peaks) peak.rate = peak.rate * tensor_cut(gpu, GemmFormat::Half);
    TensorGemm gemm = shape(8192, 8192, 8192);
    gemm.alignment = alignment;
    return price(gemm, gpu, profile).duration.in_s();
  };
  // Volta stages all operands in registers: one factor.
  CHECK(seconds(70, 8) / seconds(70, 16) == doctest::Approx(2).epsilon(0.02));
  CHECK(seconds(70, 2) == doctest::Approx(seconds(70, 8)));
  // Ampere copies asynchronously from 4 bytes on.
  CHECK(seconds(80, 4) / seconds(80, 16) == doctest::Approx(2).epsilon(0.02));
  CHECK(seconds(80, 2) / seconds(80, 16) == doctest::Approx(4).epsilon(0.02));
  // Hopper and Blackwell fall back one generation and two.
  CHECK(seconds(90, 8) / seconds(90, 16) > 2 / 0.6 * 0.95);
  CHECK(seconds(90, 2) > seconds(90, 8) * 1.9);
  CHECK(seconds(100, 8) / seconds(100, 16) > 2 / 0.36 * 0.9);
}

TEST_CASE(
    "unaligned operands leave aligned results their bandwidth, and one value of k is no row") {
  CostProfile profile = simple_profile();
  profile.tensor_gemm.unaligned = profile.tensor_gemm.unaligned_staged = 0.5;
  const GpuSpec gpu = simple_gpu();
  const auto seconds = [&](double m, double n, double k, double alignment) {
    TensorGemm gemm = shape(m, n, k);
    gemm.alignment = alignment;
    return price(gemm, gpu, profile).duration.in_s();
  };
  // Results alone: 2 x 10^8 values written, whatever the operands' rows.
  CHECK(seconds(16384, 16384, 2, 4) < 1.1 * seconds(16384, 16384, 8, 16));
  CHECK(seconds(16384, 16383, 2, 4) > 1.8 * seconds(16384, 16384, 8, 16));
  CHECK(seconds(16384, 16384, 1, 2) <= seconds(16384, 16384, 8, 16));
  // Operands alone: weights of few rows.
  CHECK(seconds(1, 16384, 16384, 4) > 1.8 * seconds(1, 16384, 16384, 16));
}

TEST_CASE("an early library steps with its first waves of large tiles, kernels that stay do not") {
  GpuSpec gpu = fast_memory();
  gpu.architecture = Architecture::Hopper;
  gpu.compute_capability = 90;
  gpu.base_clock = gpu.boost_clock = Hertz(0.25e9);  // 1.024 TFLOP/s an SM are all that it has
  CostProfile profile = simple_profile();
  for (const char* name : {"tensor_gemm.stream_growth", "tensor_gemm.efficiency_of.warp_group",
                           "tensor_gemm.stream_of.warp_group", "tensor_gemm.depth_of.warp_group",
                           "tensor_gemm.start_of.warp_group", "tensor_gemm.early_stream"}) {
    profile = with_parameter(std::move(profile), name, 1);
  }
  profile = with_parameter(std::move(profile), "tensor_gemm.resident_quantization", 0);
  profile = with_parameter(std::move(profile), "tensor_gemm.early_rate", 0.8);
  // 12 tiles of 128 x 256 on 10 SMs, each 2 * 128 * 256 * 1024 / 1.024e12 = 65.5 us: 1.2 waves.
  TensorGemm gemm = shape(128 * 12, 256, 1024);
  CHECK(price(gemm, gpu, profile).duration.in_us() == doctest::Approx(1.2 * 65.536).epsilon(0.02));
  // At 0.8 of the rate: 96 tiles of 64 x 64 make 9.6 waves of 8.192 us, of the tenth a ninth part
  // counts whole. Two waves of whole tiles take 131.
  gemm.by_early_library = true;
  CHECK(price(gemm, gpu, profile).duration.in_us() ==
        doctest::Approx((9.6 + 0.4 / 9) * 8.192 / 0.8).epsilon(0.02));
  // A generation whose kernels share SMs knows no such libraries.
  gpu.compute_capability = 80;
  const double early = price(gemm, gpu, profile).duration.in_us();
  gemm.by_early_library = false;
  CHECK(price(gemm, gpu, profile).duration.in_us() == early);
}

TEST_CASE("an engine quantises row by row, however few values a row has") {
  const GpuSpec gpu = GpuCatalog::embedded().find("h100_sxm5_80gb");
  CostProfile profile = default_cost_profile();
  TensorGemm gemm = shape(4096, 4096, 64, GemmFormat::Fp8);
  gemm.engine = GemmEngine::Vllm;
  profile = with_parameter(std::move(profile), "tensor_gemm.engine.vllm.fp8.value_cycles", 0);
  profile = with_parameter(std::move(profile), "tensor_gemm.engine.vllm.fp8.row_cycles", 0);
  const double free = price(gemm, gpu, profile).duration.in_us();
  profile = with_parameter(std::move(profile), "tensor_gemm.engine.vllm.fp8.row_cycles", 2000);
  // 4096 rows of 2000 cycles at 2 GHz on 132 SMs of 2048 threads: 4096 / 132 us. Of 1536 threads an
  // SM holds three quarters of the blocks.
  CHECK(price(gemm, gpu, profile).duration.in_us() - free == doctest::Approx(4096.0 / 132));
  GpuSpec fewer = gpu;
  fewer.max_threads_per_sm = 1536;
  CHECK(price(gemm, fewer, profile).duration.in_us() - free ==
        doctest::Approx(4096.0 / 132 / 0.75));
}

TEST_CASE("tiles that an engine takes by rows alone, and slices that it does not have") {
  const GpuSpec gpu = GpuCatalog::embedded().find("h100_sxm5_80gb");
  const CostProfile& profile = default_cost_profile();
  struct Row {
    double m;
    int tile_m, tile_n;
  };
  for (const Row& row :
       {Row{16, 16, 64}, {64, 64, 64}, {128, 64, 128}, {129, 128, 128}, {8192, 128, 128}}) {
    CAPTURE(row.m);
    TensorGemm gemm = shape(row.m, 8192, 4096, GemmFormat::Fp8);
    gemm.engine = GemmEngine::Vllm;
    const GemmEstimate estimate = price(gemm, gpu, profile);
    CHECK(estimate.tile_m == row.tile_m);
    CHECK(estimate.tile_n == row.tile_n);
  }
  TensorGemm weights = shape(16, 256, 16384, GemmFormat::Int4Weights);
  CHECK(price(weights, gpu, profile).split_k > 7);
  weights.engine = GemmEngine::TensorRtLlm;
  CHECK(price(weights, gpu, profile).split_k <= 7);
}

TEST_CASE("a board keeps of its silicon's tensor rate what its data sheet says") {
  const GpuCatalog& gpus = GpuCatalog::embedded();
  struct Row {
    const char* gpu;
    double least, most;
  };
  for (const Row& row : {Row{"v100_sxm2_16gb", 1, 1},
                         {"a100_sxm4_80gb", 1, 1},
                         {"l40s", 1, 1},
                         {"h100_sxm5_80gb", 1, 1},
                         {"b200", 1, 1},
                         {"rtx_pro_6000", 1, 1},
                         {"rtx4090", 1.7, 2},
                         {"l20", 1.7, 2},
                         {"h20_96gb", 3.5, 4.3}}) {
    CAPTURE(row.gpu);
    const double cut = tensor_cut(gpus.find(row.gpu), GemmFormat::Half);
    CHECK(cut >= row.least);
    CHECK(cut <= row.most);
  }
  CHECK(tensor_cut(gpus.find("b300"), GemmFormat::Int8) > 10);
  CHECK(tensor_cut(gpus.find("b300"), GemmFormat::Fp4) < 0.8);
}

TEST_CASE("a cut tensor rate costs no more than the cut, and nothing where memory limits") {
  const CostProfile& profile = default_cost_profile();
  for (const char* id : {"l40s", "h100_sxm5_80gb"}) {
    CAPTURE(id);
    GpuSpec whole = GpuCatalog::embedded().find(id);
    whole.tdp = whole.tdp * 10.0;
    GpuSpec cut = whole;
    for (PeakRate& peak : cut.peaks) {
      if (peak.unit == MathUnit::TensorCore) peak.rate = peak.rate / 4.0;
    }
    for (const GemmFormat format : {GemmFormat::Half, GemmFormat::Fp8, GemmFormat::Fp8Block}) {
      CAPTURE(to_string(format));
      const auto slower = [&](const TensorGemm& gemm) {
        return price(gemm, cut, profile).duration / price(gemm, whole, profile).duration;
      };
      CHECK(slower(shape(8192, 8192, 8192, format)) < 3.9);
      CHECK(slower(shape(8192, 8192, 8192, format)) > 2.0);
      CHECK(slower(shape(1, 8192, 8192, format)) < 1.03);
    }
    // What does not follow the tensor cores is the greater part of a GEMM that reaches less of
    // their rate.
    CHECK(price(shape(8192, 8192, 8192, GemmFormat::Fp8Block), cut, profile).duration <
          3.5 * price(shape(8192, 8192, 8192, GemmFormat::Fp8Block), whole, profile).duration);
  }
}

TEST_CASE("tiles along the tokens read activations again that L2 does not keep") {
  const CostProfile& profile = default_cost_profile();
  const GpuSpec gpu = GpuCatalog::embedded().find("l40s");
  const auto memory = [&](double m, double k, GemmEngine engine, double n = 4096) {
    TensorGemm gemm = shape(m, n, k);
    gemm.format = GemmFormat::Fp8Static;
    gemm.engine = engine;
    gemm.is_quantised = true;
    return price(gemm, gpu, profile).roofs.memory.in_us();
  };
  using enum GemmEngine;
  // 32 columns of 256 tiles each on 142 SMs: 235 MB of activations 31 times more.
  const double once = memory(32768, 7168, Vllm);
  const double all = memory(32768, 7168, SgLang);
  CHECK(all > once + 31.0 * 32768 * 7168 / gpu.dram_bandwidth.in_si() * 1e6);
  // 64 tiles: more than two columns at a time.
  CHECK(memory(8192, 28672, SgLang) < once + 0.55 * (all - once));
  // One column of tiles reads them once, though they are more than L2 holds.
  CHECK(memory(32768, 7168, SgLang, 64) ==
        doctest::Approx(memory(32768, 7168, Vllm, 64)).epsilon(0.01));
  // 67 MB stay in L2.
  CHECK(memory(32768, 2048, SgLang) == doctest::Approx(memory(32768, 2048, Vllm)).epsilon(0.01));
}

TEST_CASE("a GPU of twice everything is faster in everything, above its roofs, and less certain") {
  const GpuSpec b200 = GpuCatalog::embedded().find("b200");
  const GpuSpec tomorrow = twice(b200);
  const CostProfile& profile = default_cost_profile();
  Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const TensorGemm gemm = random_gemm(random);
    CAPTURE(gemm.m);
    CAPTURE(gemm.n);
    CAPTURE(gemm.k);
    CAPTURE(to_string(gemm.format));
    const GemmEstimate now = price(gemm, b200, profile);
    const GemmEstimate then = price(gemm, tomorrow, profile);
    CHECK(then.duration < now.duration);
    for (const auto& [gpu, estimate] : {std::pair{&b200, &now}, std::pair{&tomorrow, &then}}) {
      const double flops = 2 * gemm.m * gemm.n * gemm.k;
      const double bytes = gemm.n * gemm.k * weight_bytes(gemm.format);
      const auto peak = gpu->find_peak(math_of(gemm.format), MathUnit::TensorCore);
      REQUIRE(peak);
      CHECK(estimate->duration.in_s() >= flops / peak->in_si());
      CHECK(estimate->duration.in_s() >= bytes / gpu->dram_bandwidth.in_si());
      CHECK(estimate->power.in_w() <= gpu->tdp.in_w());
    }
  }
  const TensorGemm gemm = shape(4096, 4096, 4096);
  CHECK(gemm_log_sd(gemm, tomorrow, profile) > gemm_log_sd(gemm, b200, profile));
}

TEST_CASE("more bandwidth, more peak and more power never slow a GEMM") {
  const CostProfile& profile = default_cost_profile();
  Random random(5);
  for (const char* id : {"v100_sxm2_16gb", "l40s", "h100_sxm5_80gb", "b200"}) {
    const GpuSpec gpu = GpuCatalog::embedded().find(id);
    GpuSpec wide = gpu, fast = gpu, powerful = gpu;
    wide.dram_bandwidth = gpu.dram_bandwidth * 1.3;
    wide.tdp = gpu.tdp * 1.3;  // GDDR draws by its pins' rate
    for (PeakRate& peak : fast.peaks) peak.rate = peak.rate * 1.3;
    fast.tdp = gpu.tdp * 1.3;  // more operations a second want more watts
    powerful.tdp = gpu.tdp * 1.3;
    for (int i = 0; i < 500; ++i) {
      TensorGemm gemm = random_gemm(random);
      gemm.format = GemmFormat::Half;
      CAPTURE(id);
      CAPTURE(gemm.m);
      CAPTURE(gemm.n);
      CAPTURE(gemm.k);
      const double base =
          price(gemm, gpu, profile).duration.in_s() * 1.002;  // the clock is found to 0.1 %
      CHECK(price(gemm, wide, profile).duration.in_s() <= base);
      CHECK(price(gemm, fast, profile).duration.in_s() <= base);
      CHECK(price(gemm, powerful, profile).duration.in_s() <= base);
    }
  }
}

}  // namespace tracecast::cost
