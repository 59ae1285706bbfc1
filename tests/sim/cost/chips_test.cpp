// Chips unlike the four that calls of engines were fitted on: what their hardware changes, and what
// it does not.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "models/expert_load.hpp"
#include "sim/cost/price.hpp"
#include "sim/cost/tensor_board.hpp"

TEST_SUITE_BEGIN("sim/cost/chips");

namespace tracecast::cost {
namespace {

const GpuCatalog& chips() {
  static const GpuCatalog catalog = GpuCatalog::embedded();
  return catalog;
}

/// Boards from Ampere on, whole ones.
std::vector<GpuSpec> boards() {
  std::vector<GpuSpec> some;
  for (const GpuSpec& gpu : chips().all()) {
    if (gpu.compute_capability >= 80 && gpu.find_peak(Precision::Fp16, MathUnit::TensorCore))
      some.push_back(gpu);
  }
  return some;
}

GpuSpec with_tensor_cores(GpuSpec gpu, double share) {
  for (PeakRate& peak : gpu.peaks) {
    if (peak.unit == MathUnit::TensorCore) peak.rate = peak.rate * share;
  }
  return gpu;
}

GpuSpec with_bandwidth(GpuSpec gpu, double share) {
  gpu.dram_bandwidth = gpu.dram_bandwidth * share;
  return gpu;
}

constexpr GemmEngine kAll[] = {GemmEngine::TensorRtLlm, GemmEngine::SgLang, GemmEngine::Vllm};

struct Call {
  std::string what;
  Work work;
  double flops = 0;  ///< in the format of the GEMMs
  GemmFormat format = GemmFormat::Half;
  double bytes = 0;  ///< compulsory, from memory
};

DecodeWork cache(GemmEngine engine, double batch, double keys, double width = 128) {
  DecodeWork w;
  w.batch = batch, w.keys = keys, w.heads = 32, w.kv_heads = 8, w.width = width;
  w.key_values = w.gemms = 2 * width;
  w.engine = engine;
  return w;
}

DecodeWork latent_cache(GemmEngine engine, double batch, double keys, double heads) {
  DecodeWork w;
  w.latent = true;
  w.batch = batch, w.keys = keys, w.heads = heads, w.kv_heads = 1;
  w.width = w.key_values = 576, w.gemms = 1088;
  w.engine = engine;
  return w;
}

void add_attention(std::vector<Call>& all, GemmEngine engine) {
  const std::string of(to_string(engine));
  for (const double tokens : {128.0, 2048.0, 16384.0}) {
    for (const double width : {64.0, 128.0, 256.0}) {
      for (const auto format : {AttentionFormat::Half, AttentionFormat::Fp8}) {
        PrefillWork w;
        w.batch = 4, w.tokens = tokens, w.heads = 32, w.kv_heads = 8;
        w.key_width = w.value_width = width;
        w.format = format;
        w.engine = engine;
        all.push_back({fmt::format("{} prefill {} of {}, {}", of, tokens, width, to_string(format)),
                       w, 4 * 4 * 32 * tokens * tokens / 2 * width,
                       format == AttentionFormat::Fp8 ? GemmFormat::Fp8 : GemmFormat::Half});
      }
    }
  }
  for (const double keys : {1024.0, 32768.0}) {
    for (const double batch : {1.0, 256.0}) {
      DecodeWork w = cache(engine, batch, keys);
      const double values = batch * keys * 8 * 256;
      all.push_back({fmt::format("{} decode {}x{}", of, batch, keys), w,
                     4 * batch * 32 * keys * 128, GemmFormat::Half, values * 2});
      w.fp8_cache = true;
      all.push_back({fmt::format("{} decode {}x{} over fp8", of, batch, keys), w,
                     4 * batch * 32 * keys * 128, GemmFormat::Fp8, values});
      for (const double heads : {16.0, 128.0}) {
        all.push_back({fmt::format("{} latent decode {}x{} of {}", of, batch, keys, heads),
                       latent_cache(engine, batch, keys, heads), 2 * batch * heads * keys * 1088,
                       GemmFormat::Half, batch * keys * 1152});
      }
    }
  }
}

void add_experts(std::vector<Call>& all, GemmEngine engine) {
  for (const auto format :
       {ExpertFormat::Half, ExpertFormat::Fp8, ExpertFormat::Fp8Block, ExpertFormat::Fp4,
        ExpertFormat::Int4Weights, ExpertFormat::Fp4Weights, ExpertFormat::Fp4WeightsFp8}) {
    for (const double tokens : {16.0, 8192.0}) {
      ExpertsWork w;
      w.tokens = tokens, w.per_token = 8, w.all_experts = 128, w.hidden = 4096, w.width = 1536;
      w.load = expert_load(
          {.tokens = static_cast<std::int64_t>(tokens), .per_token = 8, .experts = 128});
      w.format = format;
      w.engine = engine;
      const double weights = w.load.experts * 3 * 4096 * 1536 * expert_weight_bytes(format);
      all.push_back(
          {fmt::format("{} experts {}, {} tokens", to_string(engine), to_string(format), tokens), w,
           2 * w.load.rows * 3 * 4096 * 1536, gemms_of(format), weights});
    }
  }
}

std::vector<Call> calls() {
  std::vector<Call> all;
  for (const GemmEngine engine : kAll) {
    add_attention(all, engine);
    add_experts(all, engine);
  }
  return all;
}

double us(const Work& work, const GpuSpec& gpu) {
  return price_call(work, gpu, default_cost_profile())->estimate.duration.in_us();
}

TEST_CASE("a kernel's rate on tensor cores that are held back") {
  const TensorRates whole{.peak = 8, .whole = 8}, half{.peak = 4, .whole = 8};
  for (const double efficiency : {0.1, 0.3, 0.5, 0.75, 0.9}) {
    CAPTURE(efficiency);
    CHECK(whole.at(efficiency) == doctest::Approx(8 * efficiency));
    CHECK(half.at(efficiency) <= whole.at(efficiency));
    CHECK(half.at(efficiency) >= 0.5 * whole.at(efficiency));
    CHECK(half.at(efficiency) <= 0.97 * 4);
  }
  // A kernel at a tenth of the peak waits for something else; one near it for the tensor cores
  // alone.
  CHECK(half.at(0.1) == doctest::Approx(0.8).epsilon(0.01));
  CHECK(half.at(0.97) == doctest::Approx(0.97 * 4));
  // Wider ones alone speed nothing that waits for the rest.
  const TensorRates wide{.peak = 12, .whole = 8};
  CHECK(wide.at(0.1) == doctest::Approx(0.8).epsilon(0.01));
}

TEST_CASE("half the tensor cores: never more than twice the time, never less") {
  const std::vector<Call> all = calls();
  for (const char* id : {"a100_sxm4_80gb", "l40s", "h100_sxm5_80gb", "b200", "rtx_pro_6000"}) {
    const GpuSpec& gpu = chips().find(id);
    const GpuSpec half = with_tensor_cores(gpu, 0.5);
    for (const Call& call : all) {
      CAPTURE(id);
      CAPTURE(call.what);
      const double before = us(call.work, gpu), after = us(call.work, half);
      // What the power limit leaves of the clock may grow on the way.
      CHECK(after >= before * (1 - 1e-9));
      CHECK(after <= 2 * before * (1 + 1e-9));
    }
  }
}

TEST_CASE("half the tensor cores leave long decodes to memory") {
  for (const char* id : {"a100_sxm4_80gb", "l40s", "b200", "rtx_pro_6000"}) {
    const GpuSpec& gpu = chips().find(id);
    for (const GemmEngine engine : kAll) {
      CAPTURE(id);
      const Work work = cache(engine, 64, 16384);
      CHECK(us(work, with_tensor_cores(gpu, 0.5)) < 1.1 * us(work, gpu));
    }
  }
}

TEST_CASE("more bandwidth alone speeds what memory limits") {
  for (const char* id : {"a100_sxm4_80gb", "l40s", "h100_sxm5_80gb", "rtx_pro_6000"}) {
    const GpuSpec& gpu = chips().find(id);
    for (const GemmEngine engine : {GemmEngine::TensorRtLlm, GemmEngine::Vllm}) {
      CAPTURE(id);
      const Work work = cache(engine, 64, 16384);
      // Blocks of HBM's boards draw little more than what their memory gives, and FlashAttention
      // 3's 128 rows are near its arithmetic.
      const bool is_gddr =
          gpu.memory_type < MemoryType::Hbm2 || gpu.memory_type == MemoryType::Gddr7;
      CHECK(us(work, with_bandwidth(gpu, 1.4)) < us(work, gpu) / (is_gddr ? 1.2 : 1.03));
    }
  }
}

TEST_CASE("wgmma fills rows: a chip with little arithmetic for its bandwidth decodes by it") {
  const GpuSpec& h20 = chips().find("h20_96gb");
  // 16 heads of a latent cache make 64 rows on Hopper: 2 * 64 * 1088 operations for 1,152 bytes,
  // 121 a byte, of which H20 has 37.
  const double rows = 64, sequences = 256, keys = 8192;
  const double arithmetic = 2 * rows * 1088 * sequences * keys / 148e12 * 1e6;
  const double sixteen = us(latent_cache(GemmEngine::TensorRtLlm, sequences, keys, 16), h20);
  CHECK(sixteen >= arithmetic);
  CHECK(sixteen <= 1.5 * arithmetic);
  CHECK(us(latent_cache(GemmEngine::TensorRtLlm, sequences, keys, 64), h20) ==
        doctest::Approx(sixteen).epsilon(0.05));
}

TEST_CASE("twice the exponentials speed attention, and nothing else") {
  PrefillWork w;
  w.batch = 1, w.tokens = 16384, w.heads = w.kv_heads = 32, w.key_width = w.value_width = 64;
  w.engine = GemmEngine::Vllm;
  GpuSpec ultra = chips().find("b200");
  ultra.compute_capability = 103;
  CHECK(us(w, ultra) < 0.95 * us(w, chips().find("b200")));
  ExpertsWork experts;
  experts.tokens = 64, experts.per_token = 8, experts.all_experts = 128;
  experts.hidden = 4096, experts.width = 1536;
  experts.load = expert_load({.tokens = 64, .per_token = 8, .experts = 128});
  experts.engine = GemmEngine::Vllm;
  CHECK(us(experts, ultra) == doctest::Approx(us(experts, chips().find("b200"))));
}

TEST_CASE("SGLang widens 4-bit floats before Hopper alone") {
  ExpertsWork w;
  w.tokens = 16, w.per_token = 4, w.all_experts = 128, w.hidden = w.width = 2880;
  w.load = expert_load({.tokens = 16, .per_token = 4, .experts = 128});
  w.format = ExpertFormat::Fp4Weights;
  w.engine = GemmEngine::SgLang;
  ExpertsWork halves = w;
  halves.format = ExpertFormat::Half;
  // Workstation Blackwell has Ampere's instructions and kernels over 4 bits.
  CHECK(us(w, chips().find("l40s")) > 0.8 * us(halves, chips().find("l40s")));
  CHECK(us(w, chips().find("rtx_pro_6000")) < 0.6 * us(halves, chips().find("rtx_pro_6000")));
}

TEST_CASE("no call beats its roofs, whatever the board") {
  const std::vector<Call> all = calls();
  for (const GpuSpec& gpu : boards()) {
    const TensorBoard board(gpu, default_cost_profile());
    for (const Call& call : all) {
      CAPTURE(gpu.id);
      CAPTURE(call.what);
      const double arithmetic = call.flops / board.peak(call.format) * 1e6;
      // What fits into L2 may have stayed there.
      const double memory =
          call.bytes > 8 * gpu.l2.in_bytes() ? call.bytes / gpu.dram_bandwidth.in_si() * 1e6 : 0;
      CHECK(us(call.work, gpu) >= std::max(arithmetic, memory) * (1 - 1e-9));
    }
  }
}

}  // namespace
}  // namespace tracecast::cost

TEST_SUITE_END();
