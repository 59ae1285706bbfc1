#include "sim/cost/attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "sim/cost/decode.hpp"
#include "sim/cost/prefill.hpp"
#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

TEST_SUITE_BEGIN("sim/cost/attention");

namespace tracecast::cost {
namespace {

GpuSpec of_capability(int capability) {
  GpuSpec gpu = simple_gpu();
  gpu.compute_capability = capability;
  gpu.architecture = capability >= 100  ? Architecture::Blackwell
                     : capability == 90 ? Architecture::Hopper
                     : capability == 89 ? Architecture::Ada
                                        : Architecture::Ampere;
  return gpu;
}

DecodeWork latent(double batch, double keys, double heads, GemmEngine engine) {
  DecodeWork w;
  w.latent = true;
  w.batch = batch;
  w.keys = keys;
  w.heads = heads;
  w.width = w.key_values = 576;
  w.gemms = 1088;
  w.engine = engine;
  return w;
}

double us_of(const Work& work, const GpuSpec& gpu, const CostProfile& profile) {
  return price_call(work, gpu, profile)->estimate.duration.in_us();
}

}  // namespace

TEST_CASE("attention of a network whose GEMMs are in 8 bits is priced as a call of 8-bit GEMMs") {
  const CostProfile profile = simple_profile();
  GpuSpec gpu = of_capability(90);
  gpu.peaks.push_back({Precision::Fp8, MathUnit::TensorCore, 20.48_TFLOPps});
  AttentionWork work;
  work.shape = {.batch = 96, .heads = 16, .kv_heads = 16, .queries = 256, .keys = 512, .width = 64};
  Kernel kernel;
  kernel.kernel_class = KernelClass::BatchedGemm;
  kernel.unit = MathUnit::TensorCore;
  kernel.data = kernel.math = Precision::Bf16;
  kernel.work = work;
  PrefillWork call;
  call.batch = 96;
  call.tokens = 256;
  call.keys = 512;
  call.causal = false;
  call.heads = call.kv_heads = 16;
  call.key_width = call.value_width = 64;
  PrefillWork low_precision = call;
  low_precision.format = AttentionFormat::Fp8;
  CHECK(estimate(kernel, gpu, profile).duration.in_us() ==
        doctest::Approx(us_of(call, gpu, profile)));
  kernel.math = Precision::Fp8;
  CHECK(estimate(kernel, gpu, profile).duration.in_us() ==
        doctest::Approx(us_of(low_precision, gpu, profile)));
}

TEST_CASE("an engine's sources say whose kernel a head's width and a board get") {
  const CostProfile profile = simple_profile();
  struct Row {
    const char* what;
    int capability;
    GemmEngine engine;
    double width;
    bool is_triton;
  };
  const Row rows[] = {
      {"FlashAttention on Hopper", 90, GemmEngine::SgLang, 256, false},
      {"TensorRT-LLM's kernels on data-centre Blackwell", 100, GemmEngine::SgLang, 128, false},
      {"which have no head of 192", 100, GemmEngine::SgLang, 192, true},
      {"the same by vLLM", 100, GemmEngine::Vllm, 192, true},
      {"TensorRT-LLM runs none of Triton's", 100, GemmEngine::TensorRtLlm, 192, false},
      {"workstation Blackwell", 120, GemmEngine::SgLang, 128, true},
      {"and vLLM's FlashAttention 2 there", 120, GemmEngine::Vllm, 128, false}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const TensorBoard board(of_capability(row.capability), profile);
    DecodeWork decode;
    decode.engine = row.engine;
    decode.width = row.width;
    CHECK(is_triton(decode, board) == row.is_triton);
    PrefillWork prefill;
    prefill.engine = row.engine;
    prefill.key_width = row.width;
    CHECK(is_triton(prefill, board) == row.is_triton);
  }
}

TEST_CASE("blocks over a latent cache hold as many heads as their kernel has rows") {
  const CostProfile profile = simple_profile();
  const GpuSpec ada = of_capability(89), hopper = of_capability(90);
  const auto grid = [&](const DecodeWork& w, const GpuSpec& gpu) {
    return find_grid(w, TensorBoard(gpu, profile));
  };
  CHECK(grid(latent(1, 4096, 128, GemmEngine::TensorRtLlm), ada)->rows == 64);
  CHECK(grid(latent(1, 4096, 128, GemmEngine::TensorRtLlm), ada)->parts == 1);
  CHECK(grid(latent(1, 4096, 128, GemmEngine::Vllm), ada)->rows == 16);
  CHECK(grid(latent(1, 4096, 128, GemmEngine::Vllm), ada)->parts == 4);
  // 10 SMs times log2(4096 / 64) = 6 over 8 blocks of 16 heads: 7.5 parts; of eight sequences 0.94,
  // so one.
  CHECK(grid(latent(1, 4096, 128, GemmEngine::SgLang), ada)->parts == doctest::Approx(7.5));
  CHECK(grid(latent(8, 4096, 128, GemmEngine::SgLang), ada)->parts == doctest::Approx(1));
  CHECK_FALSE(grid(latent(1, 4096, 128, GemmEngine::Vllm), hopper));
}

TEST_CASE("SGLang makes an 8-bit latent cache a 16-bit one in every call on Hopper") {
  const GpuSpec hopper = of_capability(90);
  CostProfile profile = simple_profile();
  DecodeParameters& p = profile.attention.latent_decode;
  p.upcast_us = 3;
  p.upcasts_per_clock = 2;
  p.clock_exponent = 0;
  DecodeWork w = latent(4, 8192, 16, GemmEngine::SgLang);
  const double halves = us_of(w, hopper, profile);
  w.fp8_cache = true;
  // 4 x 8192 x 576 values at 2 a clock on 10 SMs of 1 GHz.
  CHECK(us_of(w, hopper, profile) ==
        doctest::Approx(halves + 3 + 4.0 * 8192 * 576 / 20e3).epsilon(1e-3));
  w.engine = GemmEngine::TensorRtLlm;
  CHECK_FALSE(upcasts_cache(w, TensorBoard(hopper, profile)));
}

TEST_CASE("Triton's kernels pass over all keys, whatever the window") {
  const CostProfile profile = simple_profile();
  PrefillWork w;
  w.batch = 4;
  w.tokens = 8192;
  w.heads = w.kv_heads = 32;
  w.key_width = w.value_width = 128;
  const auto share = [&](GemmEngine engine) {
    w.engine = engine;
    w.window = 0;
    const double all = us_of(w, of_capability(120), profile);
    w.window = 128;
    return us_of(w, of_capability(120), profile) / all;
  };
  CHECK(share(GemmEngine::SgLang) > 0.9);
  CHECK(share(GemmEngine::Vllm) < 0.5);
}

TEST_CASE("calls that a host launches take its time, or the GPU's where that is longer") {
  CHECK(beside_host(200, 10) == doctest::Approx(200).epsilon(1e-6));
  CHECK(beside_host(200, 4000) == doctest::Approx(4000).epsilon(1e-6));
  CHECK(beside_host(200, 200) == doctest::Approx(200 * std::pow(2.0, 1.0 / 6)));
  CostProfile profile = simple_profile();
  profile.attention.latent_decode.host_us = 1e5;
  for (double& factor : profile.attention.latent_decode.host_of) factor = 1;
  DecodeWork w = latent(1, 64, 1, GemmEngine::Vllm);
  w.eager = true;
  CHECK(us_of(w, of_capability(90), profile) == doctest::Approx(1e5).epsilon(1e-6));
}

TEST_CASE("GEMMs around a latent cache are in a call that holds them") {
  const GpuSpec gpu = of_capability(80);
  const CostProfile profile = simple_profile();
  const TensorBoard board(gpu, profile);
  DecodeWork w = latent(64, 1024, 32, GemmEngine::TensorRtLlm);
  const double without = us_of(w, gpu, profile);
  w.absorbs = 128;
  const double gemms =
      board.library_gemm(32, 64, 512, 128).in_us() + board.library_gemm(32, 64, 128, 512).in_us();
  CHECK(us_of(w, gpu, profile) == doctest::Approx(without + gemms));
}

TEST_CASE("a prompt's call that leaves the cache to others is shorter") {
  const GpuSpec gpu = of_capability(80);
  CostProfile profile = simple_profile();
  profile.attention.prefill.call_us = {10, 10, 10};
  profile.attention.prefill.clock_exponent = 0;
  profile.attention.prefill.write_us = 2;
  profile.attention.prefill.traffic = {0, 0, 0};
  PrefillWork w;
  w.batch = 4, w.tokens = 512, w.heads = w.kv_heads = 8;
  w.engine = GemmEngine::Vllm;
  const double both = us_of(w, gpu, profile);
  w.writes_cache = false;
  const double factor =
      profile.attention.prefill.call_of.values[static_cast<std::size_t>(GemmEngine::Vllm)][0];
  CHECK(us_of(w, gpu, profile) == doctest::Approx(both - std::min(2.0, 5 * factor)).epsilon(1e-3));
}

TEST_CASE("a single token of vLLM's is decoded, of engines with a context phase not") {
  PrefillWork prompt;
  prompt.batch = 8;
  prompt.tokens = 1;
  prompt.heads = 16;
  prompt.kv_heads = 4;
  prompt.format = AttentionFormat::HalfOver8;
  prompt.engine = GemmEngine::Vllm;
  const auto decode = as_decode(prompt);
  REQUIRE(decode);
  CHECK(decode->keys == 1);
  CHECK(decode->batch == 8);
  CHECK(decode->fp8_cache);
  CHECK(decode->key_values == 256);
  const CostProfile profile = default_cost_profile();
  CHECK(us_of(prompt, of_capability(90), profile) ==
        doctest::Approx(us_of(*decode, of_capability(90), profile)));
  prompt.tokens = 2;
  CHECK_FALSE(as_decode(prompt));
  prompt.tokens = 1;
  prompt.engine = GemmEngine::TensorRtLlm;
  CHECK_FALSE(as_decode(prompt));
}

TEST_CASE("XQA's kernel of Ampere's instructions leaves an 8-bit cache to one block a sequence") {
  CostProfile profile = simple_profile();
  profile.attention.decode.fill = 1;
  profile.attention.decode.block_cycles = 0;
  profile.attention.decode.call_us = {0, 0, 0};
  profile.attention.decode.combine_us = {0, 0, 0};
  DecodeWork w;
  w.keys = 65536;
  w.heads = 8;
  w.kv_heads = 1;
  w.engine = GemmEngine::TensorRtLlm;
  const auto of_parts = [&](int capability) {
    const GpuSpec gpu = of_capability(capability);
    w.batch = gpu.sm_count;  // all SMs are busy with whole sequences
    const double full = us_of(w, gpu, profile);
    w.batch = 1;
    return full / us_of(w, gpu, profile);
  };
  CHECK(of_parts(89) > 2);
  w.fp8_cache = true;
  CHECK(of_parts(89) == doctest::Approx(1).epsilon(0.05));
  CHECK(of_parts(90) > 2);
}

TEST_CASE("XQA's kernel of Hopper's instructions embeds positions itself") {
  CostProfile profile = simple_profile();
  profile.attention.decode.clock_exponent = 0;
  DecodeWork w;
  w.heads = 8;
  w.kv_heads = 1;
  w.fp8_cache = true;
  w.engine = GemmEngine::TensorRtLlm;
  const auto saved = [&](int capability) {
    profile.attention.decode.embed_us = 0;
    const double before = us_of(w, of_capability(capability), profile);
    profile.attention.decode.embed_us = 2;
    return before - us_of(w, of_capability(capability), profile);
  };
  CHECK(saved(90) == doctest::Approx(2));
  CHECK(saved(89) == doctest::Approx(0));
  CHECK(saved(100) == doctest::Approx(0));
  w.kv_heads = 8;  // single heads have the old kernel
  CHECK(saved(90) == doctest::Approx(0));
  w.kv_heads = 1;
  w.fp8_cache = false;
  CHECK(saved(90) == doctest::Approx(0));
}

}  // namespace tracecast::cost
TEST_SUITE_END();
