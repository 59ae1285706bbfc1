#include "sim/cost/tensor_gemm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <string>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

TEST_SUITE_BEGIN("sim/cost/engine_tiles");

namespace tracecast::cost {
namespace {

TensorGemm engine_gemm(GemmEngine engine, double m, double n, double k,
                       GemmFormat format = GemmFormat::Fp8) {
  TensorGemm gemm;
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.format = format;
  gemm.engine = engine;
  return gemm;
}

/// The simple GPU with Ada's instructions: 1.024 TFLOP/s an SM in any format, memory that nothing
/// waits for.
GpuSpec ada_gpu() {
  GpuSpec gpu = simple_gpu();
  gpu.architecture = Architecture::Ada;
  gpu.compute_capability = 89;
  gpu.dram_bandwidth = BytesPerSecond(1e15);
  gpu.peaks.push_back({Precision::Fp8, MathUnit::TensorCore, 10.24_TFLOPps});
  gpu.peaks.push_back({Precision::Int8, MathUnit::TensorCore, 10.24_TFLOPps});
  return gpu;
}

/// Engines' calls free, generations and formats as their common values say.
CostProfile bare_engines() {
  CostProfile profile = simple_profile();
  profile.tensor_gemm.efficiency_of = profile.tensor_gemm.stream_of =
      profile.tensor_gemm.energy_of = {};
  profile.tensor_gemm.depth_of = profile.tensor_gemm.start_of = {};
  profile.tensor_gemm.formats = {};
  profile.tensor_gemm.engines = {};
  for (auto& engine : profile.tensor_gemm.engines)
    for (EngineParameters& e : engine) e.call_us = e.traffic = 0;
  profile.tensor_gemm.single_block_cycles = profile.tensor_gemm.packed_scales_us = 0;
  profile.tensor_gemm.packed_scales_us_per_million = 0;
  profile.tensor_gemm.step_cycles = {{0, 0, 0, 0}};
  profile.tensor_gemm.pass_cycles_per_kib = profile.tensor_gemm.scalar_round_us = 0;
  profile.tensor_gemm.single_block_spill = 1;
  profile.tensor_gemm.uneven_tokens_us = profile.tensor_gemm.uneven_tokens_us_per_million = 0;
  profile.tensor_gemm.single_token_us = 0;
  return profile;
}

double call_us(const TensorGemm& gemm, const GpuSpec& gpu, const CostProfile& profile) {
  return TensorGemmMachine(gpu, gemm.format, profile).estimate(gemm).duration.in_us();
}

}  // namespace

TEST_CASE("tiles of one size take whole waves") {
  GpuSpec gpu = ada_gpu();
  const CostProfile profile = bare_engines();
  // SGLang's 128 x 128 beyond 256 tokens, on ten SMs: ten tiles take as long as six, eleven as
  // twenty.
  const auto us = [&](double tiles) {
    return call_us(engine_gemm(GemmEngine::SgLang, 128 * tiles, 64, 65536), gpu, profile);
  };
  CHECK(us(6) == doctest::Approx(us(10)).epsilon(0.01));
  CHECK(us(11) == doctest::Approx(us(20)).epsilon(0.01));
  CHECK(us(20) > 1.9 * us(10));
}

TEST_CASE("engines take the tile that their sources name") {
  using enum GemmEngine;
  using enum MmaKind;
  struct Row {
    const char* what;
    GemmEngine engine;
    MmaKind kind;
    int capability;
    double m, n;
    int tile_m, tile_n;  // 0: any
  };
  const Row rows[] = {
      {"vLLM, Ada, many tokens", Vllm, AsyncWarp, 89, 512, 4096, 128, 128},
      {"vLLM, Ada, features up to 8192", Vllm, AsyncWarp, 89, 512, 4097, 256, 128},
      {"vLLM, Ada, few tokens", Vllm, AsyncWarp, 89, 16, 8192, 16, 64},
      {"vLLM, Ada, few tokens, more features", Vllm, AsyncWarp, 89, 1, 16384, 16, 128},
      {"vLLM, Ada, few tokens, most features", Vllm, AsyncWarp, 89, 16, 16385, 32, 64},
      {"vLLM, Ada, 20 tokens are 32", Vllm, AsyncWarp, 89, 20, 12288, 32, 128},
      {"vLLM, Hopper", Vllm, WarpGroup, 90, 100, 4096, 64, 128},
      {"vLLM, data-centre Blackwell", Vllm, TensorMemory, 100, 200, 4096, 64, 128},
      {"vLLM, Hopper, few tokens", Vllm, WarpGroup, 90, 16, 4096, 16, 64},
      {"vLLM, Hopper, few features", Vllm, WarpGroup, 90, 60, 1280, 16, 64},
      {"vLLM, data-centre Blackwell, few tokens", Vllm, TensorMemory, 100, 16, 4096, 32, 64},
      {"vLLM, workstation Blackwell, few tokens", Vllm, AsyncWarp, 120, 1, 4096, 16, 64},
      {"vLLM, workstation Blackwell", Vllm, AsyncWarp, 120, 257, 4096, 128, 128},
      {"SGLang, Ada, a single token", SgLang, AsyncWarp, 89, 1, 4096, 16, 64},
      {"SGLang, Ada, many features", SgLang, AsyncWarp, 89, 100, 32768, 32, 64},
      {"SGLang, workstation Blackwell", SgLang, AsyncWarp, 120, 1, 4096, 128, 128},
      {"SGLang, Hopper", SgLang, WarpGroup, 90, 257, 64, 128, 128},
      {"SGLang, data-centre Blackwell", SgLang, TensorMemory, 100, 257, 64, 128, 128},
      {"TensorRT-LLM calls the library", TensorRtLlm, AsyncWarp, 89, 257, 64, 0, 0},
      {"so does everyone before Ampere", Vllm, Warp, 75, 257, 64, 0, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.what));
    const auto tiles =
        engine_tiles(engine_gemm(row.engine, row.m, row.n, 4096), row.kind, row.capability);
    REQUIRE(tiles.size() == (row.tile_m > 0 ? 1 : 0));
    if (tiles.empty()) continue;
    CHECK(tiles[0].m == row.tile_m);
    CHECK(tiles[0].n == row.tile_n);
  }
}

TEST_CASE("grids have whole clusters") {
  using enum GemmEngine;
  const auto tile = [](GemmEngine engine, MmaKind kind, int capability, double m, double n,
                       GemmFormat format = GemmFormat::Fp8) {
    return engine_tiles(engine_gemm(engine, m, n, 4096, format), kind, capability)[0];
  };
  CHECK(tile(Vllm, MmaKind::WarpGroup, 90, 257, 4096).cluster_m == 2);
  CHECK(tile(Vllm, MmaKind::TensorMemory, 100, 8, 4096).cluster_n == 4);
  CHECK(tile(SgLang, MmaKind::WarpGroup, 90, 1024, 4096).cluster_m == 1);
  CHECK(tile(SgLang, MmaKind::WarpGroup, 90, 1025, 4096).cluster_m == 2);
  CHECK(tile(TensorRtLlm, MmaKind::WarpGroup, 90, 64, 4096, GemmFormat::Fp8Block).m == 64);
  CHECK(tile(TensorRtLlm, MmaKind::WarpGroup, 90, 65, 4096, GemmFormat::Fp8Block).m == 128);
}

TEST_CASE("Hopper's tiles past the last token take longer than others") {
  GpuSpec gpu = ada_gpu();
  gpu.architecture = Architecture::Hopper;
  gpu.compute_capability = 90;
  CostProfile profile = bare_engines();
  profile.tensor_gemm.tile_padding = 0;
  // vLLM's pairs of 128 tokens, ten SMs: 257 tokens are two pairs, of which the second is all but
  // empty.
  const auto us = [&](double m) {
    return call_us(engine_gemm(GemmEngine::Vllm, m, 128 * 10, 65536), gpu, profile);
  };
  CHECK(us(257) == doctest::Approx(us(512)).epsilon(0.01));
  profile.tensor_gemm.tile_padding = 0.5;
  // Five pairs a wave: no SM stays with one pair of tokens, so the mean counts.
  CHECK(us(257) == doctest::Approx((1 + 0.5 * 255 / 512) * us(512)).epsilon(0.01));
  CHECK(us(384) == doctest::Approx((1 + 0.5 * 128 / 512) * us(512)).epsilon(0.01));
}

TEST_CASE("few tokens in 8-bit integers are vectors, so that few features fill the board") {
  const auto tiles = [](double m) {
    return engine_tiles(engine_gemm(GemmEngine::TensorRtLlm, m, 64, 64, GemmFormat::Int8),
                        MmaKind::AsyncWarp, 80);
  };
  REQUIRE(tiles(4).size() == 1);
  CHECK(tiles(4)[0].n == 8);
  CHECK(tiles(5).empty());
}

TEST_CASE("two SMs of one instruction draw its columns by halves") {
  GpuSpec gpu = ada_gpu();
  gpu.architecture = Architecture::Blackwell;
  gpu.compute_capability = 100;
  gpu.l2 = Bytes(1e12);
  CostProfile profile = bare_engines();
  profile.tensor_gemm.stream_bytes_per_clock =
      0.001;  // so that what blocks draw is all that counts
  const auto us = [&](GemmEngine engine, double m) {
    return call_us(engine_gemm(engine, m, 512, 65536), gpu, profile);
  };
  // SGLang: 64 tokens by 64 features of an SM of its own, 100 tokens in pairs of 64 by 128, 300 in
  // pairs of 128 by 128.
  CHECK(us(GemmEngine::SgLang, 100) == doctest::Approx(us(GemmEngine::SgLang, 64)).epsilon(0.001));
  CHECK(us(GemmEngine::SgLang, 300) / us(GemmEngine::SgLang, 100) ==
        doctest::Approx(2 * (128 + 64.0) / (64 + 64)).epsilon(0.001));  // 12 blocks on 10 SMs
  // vLLM's rows are features up to 64 tokens: 64 of its own and half of 64 tokens.
  CHECK(us(GemmEngine::Vllm, 64) / us(GemmEngine::SgLang, 64) ==
        doctest::Approx((64 + 32) / 128.0).epsilon(0.001));
}

TEST_CASE("an operand that outgrows L2 comes again with every sweep of an engine's grid") {
  GpuSpec gpu = ada_gpu();
  gpu.architecture = Architecture::Hopper;
  gpu.compute_capability = 90;
  gpu.dram_bandwidth = 100.0_GBps;
  CostProfile profile = bare_engines();
  profile.tensor_gemm.tile_padding = 0;
  const auto memory_us = [&](double l2, std::optional<GemmEngine> engine) {
    gpu.l2 = Bytes(l2);
    // vLLM: 32 tiles of tokens by 128 of features on ten SMs, fewer than a sweep has.
    TensorGemm gemm = engine_gemm(GemmEngine::Vllm, 4096, 16384, 8192);
    gemm.engine = engine;
    gemm.is_quantised = true;
    return TensorGemmMachine(gpu, gemm.format, profile).estimate(gemm).roofs.memory.in_us();
  };
  const double tokens = 4096.0 * 8192;
  const double once = memory_us(1e12, GemmEngine::Vllm);
  const double again = memory_us(1e3, GemmEngine::Vllm);
  const double bytes = tokens + 16384.0 * 8192 + 2.0 * 4096 * 16384;
  CHECK((again / once - 1) * bytes == doctest::Approx(127 * tokens).epsilon(0.01));
  // The vendor's grids are bands: as wide as the whole here.
  CHECK(memory_us(1e3, std::nullopt) == doctest::Approx(once).epsilon(0.01));
  profile.tensor_gemm.band_tiles = 8;
  CHECK(memory_us(1e3, std::nullopt) > 1.5 * once);
  CHECK(memory_us(1e3, std::nullopt) < 0.5 * again);
}

TEST_CASE("a row that is longer takes longer to quantise where no memory is waited for") {
  const GpuSpec gpu = ada_gpu();
  CostProfile profile = bare_engines();
  const auto us = [&] {
    return call_us(engine_gemm(GemmEngine::Vllm, 4096, 64, 4096), gpu, profile);
  };
  const double before = us();
  profile.tensor_gemm
      .engines[static_cast<std::size_t>(GemmEngine::Vllm)]
              [static_cast<std::size_t>(GemmFormat::Fp8)]
      .value_cycles = 500;
  // 4096 rows of 4 times 500 cycles at 2 GHz on 10 SMs.
  CHECK(us() - before == doctest::Approx(4096 * 4 * 500 / 2e9 / 10 * 1e6).epsilon(0.01));
}

TEST_CASE(
    "tokens that are no multiple of four, and a single one, take more on data-centre Blackwell") {
  GpuSpec gpu = ada_gpu();
  gpu.architecture = Architecture::Blackwell;
  gpu.compute_capability = 100;
  CostProfile profile = bare_engines();
  profile.tensor_gemm.uneven_tokens_us = 100;
  profile.tensor_gemm.uneven_tokens_us_per_million = 1e6;  // one for each scale
  profile.tensor_gemm.single_token_us = 1000;
  const auto us = [&](GemmEngine engine, GemmFormat format, double m, double k) {
    return call_us(engine_gemm(engine, m, 512, k, format), gpu, profile);
  };
  using enum GemmFormat;
  const auto blocks = [&](double m, double k) {
    return us(GemmEngine::TensorRtLlm, Fp8Block, m, k);
  };
  CHECK(blocks(6, 256) - blocks(8, 256) == doctest::Approx(100 + 6 * 2));
  CHECK(blocks(6, 128) == doctest::Approx(blocks(8, 128)));  // one row of scales
  CHECK(us(GemmEngine::SgLang, Fp8Block, 6, 256) ==
        doctest::Approx(us(GemmEngine::SgLang, Fp8Block, 8, 256)));
  CHECK(us(GemmEngine::Vllm, Fp8, 1, 256) > 1000);
  CHECK(us(GemmEngine::Vllm, Fp8, 2, 256) < 1000);
  gpu.compute_capability = 120;
  CHECK(us(GemmEngine::Vllm, Fp8, 1, 256) < 1000);
}

TEST_CASE("4-bit floats take the default tile where nothing was tuned") {
  TensorGemm gemm = engine_gemm(GemmEngine::TensorRtLlm, 8, 64, 64, GemmFormat::Fp4);
  CHECK(engine_tiles(gemm, MmaKind::TensorMemory, 100).size() == 3);
  gemm.is_untuned = true;
  const auto tiles = engine_tiles(gemm, MmaKind::TensorMemory, 100);
  REQUIRE(tiles.size() == 1);
  CHECK(tiles[0].m == 128);
  CHECK(tiles[0].n == 256);
}

TEST_CASE("weight-only GEMMs take tiles of 128 tokens at most, and slices that k divides into") {
  const GpuSpec gpu = ada_gpu();
  CostProfile profile = bare_engines();
  profile.tensor_gemm.serial_slice_us = 0;
  const auto estimate = [&](double m, double n, double k) {
    const TensorGemm gemm = engine_gemm(GemmEngine::TensorRtLlm, m, n, k, GemmFormat::Int8Weights);
    return TensorGemmMachine(gpu, gemm.format, profile).estimate(gemm);
  };
  CHECK(estimate(8192, 8192, 4096).tile_m <= 128);
  CHECK(engine_tiles(engine_gemm(GemmEngine::TensorRtLlm, 5, 1, 64, GemmFormat::Int4Weights),
                     MmaKind::AsyncWarp, 89)
            .size() == 5);
  // 65 steps of 64: of two to seven slices only five are whole.
  CHECK(estimate(16, 128, 65 * 64).split_k == 5);
  CHECK(estimate(16, 128, 60 * 64).split_k == 6);
  // Slices add up in turn: where that takes longer than k, there is one.
  profile.tensor_gemm.serial_slice_us = 1000;
  CHECK(estimate(16, 128, 65 * 64).split_k == 1);
}

TEST_CASE("convolutions of engines take whole k, before Ampere in tiles of 128x64 and more") {
  TensorGemm gemm;
  gemm.format = GemmFormat::Half;
  gemm.m = 49;
  gemm.n = 64;
  gemm.k = 65536;
  GpuSpec gpu = ada_gpu();
  const CostProfile profile = bare_engines();
  const auto estimate = [&] { return TensorGemmMachine(gpu, gemm.format, profile).estimate(gemm); };
  CHECK(estimate().split_k > 1);  // a matrix
  const double matrix = estimate().duration.in_us();
  gemm.image = 49.0 * 512 * 2;
  CHECK(estimate().split_k == 1);
  CHECK(estimate().duration.in_us() > 2 * matrix);
  for (const GemmTile& tile : engine_tiles(gemm, MmaKind::Warp, 75)) {
    CHECK(tile.m >= 128);
    CHECK(tile.n >= 64);
  }
  CHECK(engine_tiles(gemm, MmaKind::AsyncWarp, 80).empty());
}

TEST_CASE("a block alone on its SM ends unhidden") {
  const GpuSpec gpu = ada_gpu();
  CostProfile profile = bare_engines();
  profile.tensor_gemm.single_block_cycles = 20000;  // 20 us at 1 GHz
  profile.tensor_gemm.single_block_spill = 3;
  const CostProfile without = bare_engines();
  // 4096 x 4096 in 1024 tiles of 128 x 128: 102.4 on each of 10 SMs.
  const TensorGemm square = engine_gemm(GemmEngine::Vllm, 4096, 4096, 64);
  CHECK(call_us(square, gpu, profile) - call_us(square, gpu, without) ==
        doctest::Approx(102.4 * 20));
  // 4096 x 8192 in 1024 tiles of 256 x 128, whose results spill.
  const TensorGemm wide = engine_gemm(GemmEngine::Vllm, 4096, 8192, 64);
  CHECK(call_us(wide, gpu, profile) - call_us(wide, gpu, without) == doctest::Approx(102.4 * 60));
  // Tiles of 16 tokens end at once.
  const TensorGemm few = engine_gemm(GemmEngine::Vllm, 16, 4096, 64);
  CHECK(call_us(few, gpu, profile) == call_us(few, gpu, without));
  // Others' kernels share their SMs.
  const TensorGemm other = engine_gemm(GemmEngine::SgLang, 4096, 4096, 64);
  CHECK(call_us(other, gpu, profile) == call_us(other, gpu, without));
}

TEST_CASE(
    "scales that are laid out in every call take their kernels' time, longer the more there are") {
  CostProfile profile = bare_engines();
  profile.tensor_gemm.packed_scales_us = 7;
  profile.tensor_gemm.packed_scales_us_per_million = 50;
  TensorGemm gemm = engine_gemm(GemmEngine::SgLang, 64, 65536, 2000, GemmFormat::Fp8Block);
  const double once = call_us(gemm, ada_gpu(), profile);
  gemm.packs_scales = true;
  // A feature has one for 128 values of k, the last for what is left: 16.
  CHECK(call_us(gemm, ada_gpu(), profile) - once == doctest::Approx(7 + 1.048576 * 50));
}

TEST_CASE("memory hides behind an engine's own kernels as far as their exponent tells") {
  GpuSpec gpu = ada_gpu();
  gpu.dram_bandwidth = BytesPerSecond(1e10);
  CostProfile profile = bare_engines();
  const TensorGemm gemm = engine_gemm(GemmEngine::SgLang, 64, 8192, 8192);
  const auto us = [&](double exponent, GemmEngine engine) {
    profile.tensor_gemm.own_overlap = exponent;
    TensorGemm p = gemm;
    p.engine = engine;
    return call_us(p, gpu, profile);
  };
  using enum GemmEngine;
  CHECK(us(1, SgLang) > us(2, SgLang));
  CHECK(us(2, SgLang) > us(3, SgLang));
  // TensorRT-LLM's are the vendor's.
  CHECK(us(1, TensorRtLlm) == us(3, TensorRtLlm));
  // One after the other: what is slowest, and all of the rest.
  gpu.dram_bandwidth = BytesPerSecond(1e18);
  const double rest = us(1, SgLang);
  gpu.dram_bandwidth = BytesPerSecond(1e10);
  const double memory = us(1, SgLang) - rest;
  CHECK(memory > 0.9 * 8192.0 * 8192 / 1e10 * 1e6);
}

TEST_CASE("a pass that finds its values in L2 takes SM cycles, and none where it ran before") {
  GpuSpec gpu = ada_gpu();
  gpu.l2 = Bytes(1e9);
  CostProfile profile = bare_engines();
  TensorGemm gemm = engine_gemm(GemmEngine::SgLang, 1024, 4096, 1024);
  gemm.reuse = {.activations = 1e6, .weights = 1e6, .results = 1e6};
  const double without = call_us(gemm, gpu, profile);
  profile.tensor_gemm.pass_cycles_per_kib = 100;
  profile.tensor_gemm
      .engines[static_cast<std::size_t>(GemmEngine::SgLang)]
              [static_cast<std::size_t>(GemmFormat::Fp8)]
      .traffic = 1;
  // 1 Mi values, 2 bytes read and 1 written, 100 cycles a KiB: 3072 times 100 on 10 SMs of 1 GHz.
  CHECK(call_us(gemm, gpu, profile) - without == doctest::Approx(30.72));
  gemm.is_quantised = true;
  CHECK(call_us(gemm, gpu, profile) == doctest::Approx(without));
}

TEST_CASE("TensorRT-LLM's pass with static scales takes a round for 262,144 values") {
  GpuSpec gpu = ada_gpu();
  CostProfile profile = bare_engines();
  TensorGemm gemm = engine_gemm(GemmEngine::TensorRtLlm, 1024, 64, 1024, GemmFormat::Fp8Static);
  const double without = call_us(gemm, gpu, profile);
  profile.tensor_gemm.scalar_round_us = 0.5;
  CHECK(call_us(gemm, gpu, profile) - without == doctest::Approx(4 * 0.5));
  gemm.format = GemmFormat::Fp8;
  CHECK(call_us(gemm, gpu, profile) < without + 2);
}

TEST_CASE(
    "without an engine an untuned GEMM in 8-bit floats has one tile on Hopper, and no slices") {
  const GpuSpec gpu = GpuCatalog::embedded().find("h100_sxm5_80gb");
  TensorGemm gemm;
  gemm.m = 4;
  gemm.n = 512;
  gemm.k = 16384;
  gemm.format = GemmFormat::Fp8;
  const auto estimate = [&] {
    return TensorGemmMachine(gpu, gemm.format, default_cost_profile()).estimate(gemm);
  };
  CHECK(estimate().split_k > 1);
  gemm.is_untuned = true;
  CHECK(estimate().tile_m == 128);
  CHECK(estimate().tile_n == 128);
  CHECK(estimate().split_k == 1);
  const double few = estimate().duration.in_us();
  gemm.m = 128;
  CHECK(estimate().duration.in_us() == doctest::Approx(few).epsilon(0.05));
}

TEST_CASE("errors of a format are those of its kernels' owner and of what it asks of them") {
  CostProfile profile = bare_engines();
  profile.error_causes = {};
  profile.error[static_cast<std::size_t>(CostForm::TensorGemm)] = {0.1, 0.1, 0.1};
  profile.error_causes.tensor_gemm_format[1 + static_cast<std::size_t>(GemmEngine::SgLang)] = 0.24;
  profile.error_causes.tensor_gemm_family[static_cast<std::size_t>(FormatFamily::Blocks)] = 0.32;
  const auto log_sd = [&](GemmFormat format) {
    return gemm_log_sd(engine_gemm(GemmEngine::SgLang, 1, 1, 1, format), ada_gpu(), profile);
  };
  CHECK(log_sd(GemmFormat::Half) == doctest::Approx(0.1));
  CHECK(log_sd(GemmFormat::Fp8) == doctest::Approx(0.26));
  CHECK(log_sd(GemmFormat::Fp8Block) == doctest::Approx(std::hypot(0.1, 0.4)));
}

TEST_CASE("activations of its own make each copy of a call read memory") {
  GpuSpec gpu = ada_gpu();
  gpu.dram_bandwidth = 100.0_GBps;
  gpu.l2 = Bytes(100e6);
  CostProfile profile = bare_engines();
  profile.tensor_gemm
      .engines[static_cast<std::size_t>(GemmEngine::SgLang)]
              [static_cast<std::size_t>(GemmFormat::Fp8)]
      .traffic = 1;
  TensorGemm gemm = engine_gemm(GemmEngine::SgLang, 1024, 1024, 4096);
  gemm.reuse = {.activations = 1, .weights = 1, .results = 1};
  const double same = call_us(gemm, gpu, profile);
  gemm.reuse.inputs = 1e12;
  // 1024 x 4096 values of 2 bytes at 97 GB/s of 100: 86.5 us more.
  CHECK(call_us(gemm, gpu, profile) - same ==
        doctest::Approx(1024.0 * 4096 * 2 / 97e3).epsilon(0.02));
}

}  // namespace tracecast::cost

TEST_SUITE_END();
