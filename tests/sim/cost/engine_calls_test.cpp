#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/random.hpp"
#include "sim/cost/decode.hpp"
#include "sim/cost/experts.hpp"
#include "sim/cost/prefill.hpp"
#include "sim/cost/price.hpp"
#include "tests/sim/cost/simple_machine.hpp"

TEST_SUITE_BEGIN("sim/cost/engine_calls");

namespace tracecast::cost {
namespace {

/// The simple GPU with Ampere's instructions: 1.024 TFLOP/s an SM, one result of 16 special
/// function units a clock at 1 GHz.
GpuSpec ampere() {
  GpuSpec gpu = simple_gpu();
  gpu.architecture = Architecture::Ampere;
  gpu.compute_capability = 86;
  gpu.dram_bandwidth = BytesPerSecond(1e15);
  return gpu;
}

/// Every efficiency 1, every overhead 0, all calls free.
CostProfile bare() {
  CostProfile profile = simple_profile();
  PrefillParameters prefill;
  prefill.efficiency = 0.98;
  prefill.softmax = 1;
  prefill.overlap = 1;
  prefill.block_cycles = prefill.tile_cycles = prefill.latency_cycles = prefill.key_cycles = 0;
  prefill.wide = prefill.tail = prefill.clock_exponent = 0;
  prefill.dram_efficiency = 1;
  prefill.l2_bytes_per_clock = 1e9;
  prefill.call_us = {5, 5, 5};
  prefill.traffic = {0, 0, 0};
  profile.attention.prefill = profile.attention.latent_prefill = prefill;
  DecodeParameters decode;
  decode.keys_per_split = 128;
  decode.fill = 1;
  decode.wave_quantization = 1;
  decode.stream_bytes_per_clock = 1;  // 96 bytes a clock from 96 KiB
  decode.efficiency = 0.9;
  decode.softmax = 0;
  decode.block_cycles = 0;
  decode.padding = 0;
  decode.splits = 1000;
  decode.dram_efficiency = 0.97;
  decode.l2_bytes_per_clock = 1e9;
  decode.clock_exponent = 0;
  decode.call_us = {5, 5, 5};
  decode.combine_us = {0, 0, 0};
  decode.traffic = {0, 0, 0};
  profile.attention.decode = profile.attention.latent_decode = decode;
  ExpertParameters& e = profile.moe.experts;
  e = ExpertParameters();
  e.efficiency = 0.97;
  e.stream_bytes_per_clock = 1e6;
  e.l2_bytes_per_clock = 1e9;
  e.wave_quantization = 1;
  e.block_depth = e.operand_edge = e.block_cycles = e.clock_exponent = 0;
  e.call_us = {5, 5, 5};
  e.traffic = e.route = e.expert = e.pair = {0, 0, 0};
  return profile;
}

double us(const Work& work, const GpuSpec& gpu, const CostProfile& profile) {
  return price_call(work, gpu, profile)->estimate.duration.in_us();
}

PrefillWork prefill(double batch, double tokens, double heads) {
  PrefillWork w;
  w.batch = batch;
  w.tokens = tokens;
  w.heads = w.kv_heads = heads;
  w.engine = GemmEngine::TensorRtLlm;
  return w;
}

DecodeWork decode(double batch, double keys, double heads, double kv_heads) {
  DecodeWork w;
  w.batch = batch;
  w.keys = keys;
  w.heads = heads;
  w.kv_heads = kv_heads;
  w.engine = GemmEngine::Vllm;
  return w;
}

ExpertsWork experts(const Routing& routing, double hidden, double width,
                    ExpertFormat format = ExpertFormat::Half) {
  ExpertsWork w;
  w.load = expert_load(routing);
  w.tokens = static_cast<double>(routing.tokens);
  w.per_token = static_cast<double>(routing.per_token);
  w.all_experts = static_cast<double>(routing.experts);
  w.hidden = hidden;
  w.width = width;
  w.format = format;
  w.engine = GemmEngine::TensorRtLlm;
  return w;
}

/// `gpu` with twice of everything that a data sheet states.
GpuSpec twice(GpuSpec gpu) {
  gpu.sm_count *= 2;
  gpu.base_clock = gpu.base_clock * 2.0;
  gpu.boost_clock = gpu.boost_clock * 2.0;
  gpu.application_clock = gpu.application_clock * 2.0;
  for (PeakRate& peak : gpu.peaks) peak.rate = peak.rate * 4.0;
  gpu.l2 = gpu.l2 * 2.0;
  gpu.dram_bandwidth = gpu.dram_bandwidth * 2.0;
  gpu.tdp = gpu.tdp * 4.0;
  gpu.idle_power = gpu.idle_power * 2.0;
  gpu.id = "tomorrow";
  return gpu;
}

/// A call of any kind, sizes spread over decades, by any engine.
Work random_call(Random& random) {
  const auto size = [&](double low, double high) {
    return std::floor(low * std::exp(random.uniform() * std::log(high / low)));
  };
  const auto engine = static_cast<GemmEngine>(random.below(kGemmEngineCount));
  const double kv_heads = std::exp2(static_cast<double>(random.below(4)));
  const double heads = kv_heads * std::exp2(static_cast<double>(random.below(7)));
  switch (random.below(4)) {
    case 0: {
      PrefillWork w = prefill(size(1, 64), size(1, 8192), heads);
      w.kv_heads = kv_heads;
      w.format = static_cast<AttentionFormat>(random.below(kAttentionFormatCount));
      w.window = random.below(2) == 0 ? 0 : 128;
      w.engine = engine;
      return w;
    }
    case 1: {
      DecodeWork w = decode(size(1, 512), size(1, 65536), heads, kv_heads);
      w.fp8_cache = random.below(2) == 1;
      w.window = random.below(2) == 0 ? 0 : 128;
      w.engine = engine;
      return w;
    }
    case 2: {
      ExpertsWork w = experts({.tokens = static_cast<std::int64_t>(size(1, 8192)),
                               .per_token = 8,
                               .experts = 128,
                               .ranks = 8},
                              size(1024, 8192), size(256, 4096),
                              static_cast<ExpertFormat>(random.below(kExpertFormatCount)));
      w.engine = engine;
      return w;
    }
    default:
      return QuantizationWork{.rows = size(1, 16384), .cols = size(64, 16384), .engine = engine};
  }
}

/// The call with more to do, by every way of having more.
std::vector<Work> with_more(const Work& work) {
  std::vector<Work> more;
  const auto add = [&](auto copy, auto change) {
    change(copy);
    more.push_back(std::move(copy));
  };
  if (const auto* w = std::get_if<PrefillWork>(&work)) {
    add(*w, [](PrefillWork& m) { m.batch += 1; });
    add(*w, [](PrefillWork& m) { m.tokens += 130; });
    add(*w, [](PrefillWork& m) { m.heads *= 2, m.kv_heads *= 2; });
    if (w->window > 0) add(*w, [](PrefillWork& m) { m.window *= 2; });
  } else if (const auto* d = std::get_if<DecodeWork>(&work)) {
    add(*d, [](DecodeWork& m) { m.batch += 1; });
    add(*d, [](DecodeWork& m) { m.keys += 70; });
    add(*d, [](DecodeWork& m) { m.keys *= 2; });
    add(*d, [](DecodeWork& m) { m.heads *= 2, m.kv_heads *= 2; });
  } else if (const auto* x = std::get_if<ExpertsWork>(&work)) {
    add(*x, [](ExpertsWork& m) { m.hidden += 256; });
    add(*x, [](ExpertsWork& m) { m.width += 64; });
  } else {
    const auto& q = std::get<QuantizationWork>(work);
    add(q, [](QuantizationWork& m) { m.rows += 1; });
    add(q, [](QuantizationWork& m) { m.cols += 64; });
  }
  return more;
}

/// Seconds below which nothing runs: arithmetic at the peak of the widest format that the call may
/// use.
double least_seconds(const Work& work, const GpuSpec& gpu) {
  double flops = 0;
  if (const auto* w = std::get_if<PrefillWork>(&work)) {
    const double n = w->tokens, v = w->window;
    const double seen = v > 0 && v < n ? v * n - v * (v - 1) / 2 : n * (n + 1) / 2;
    flops = 2 * w->batch * w->heads * seen * (w->key_width + w->value_width);
  } else if (const auto* d = std::get_if<DecodeWork>(&work)) {
    const double keys = d->window > 0 ? std::min(d->window, d->keys) : d->keys;
    flops = 2 * d->batch * d->heads * keys * d->gemms;
  } else if (const auto* x = std::get_if<ExpertsWork>(&work)) {
    flops = 2 * x->load.rows * x->hidden * x->width * (x->gated ? 3 : 2);
  }
  double peak = 0;
  for (const PeakRate& p : gpu.peaks) {
    if (p.unit == MathUnit::TensorCore) peak = std::max(peak, p.rate.in_si());
  }
  return flops / peak;
}

constexpr std::array kGpus = {"a100_sxm4_80gb", "l40s", "h100_sxm5_80gb", "b200"};

}  // namespace

TEST_CASE("kernels that mask a window pass over all keys") {
  GpuSpec gpu = ampere();
  const CostProfile profile = bare();
  PrefillWork w = prefill(4, 8192, 16);
  w.key_width = w.value_width = 64;
  w.engine = GemmEngine::SgLang;
  const double all = us(w, gpu, profile);
  w.window = 128;
  CHECK(us(w, gpu, profile) == all);
  w.key_width = w.value_width = 128;
  const double wider = us(w, gpu, profile);
  w.window = 0;
  CHECK(wider < 0.2 * us(w, gpu, profile));
}

TEST_CASE("GEMMs and softmax of a tile of attention take turns where nothing overlaps them") {
  // 10 heads of 128 queries on 10 SMs, one tile each: 2 * 128 * 128 * 256 / (0.98 * 1.024e12)
  // = 8.359 us of GEMMs, 128 * 128 / (16 * 1 GHz) = 1.024 us of softmax, 5 us of call.
  CHECK(us(prefill(1, 128, 10), ampere(), bare()) ==
        doctest::Approx(5 + 8.359 + 1.024).epsilon(2e-3));
  // Twice as many heads: two blocks on each SM.
  CHECK(us(prefill(1, 128, 20), ampere(), bare()) ==
        doctest::Approx(5 + 2 * (8.359 + 1.024)).epsilon(2e-3));
}

TEST_CASE("a causal mask skips tiles above the diagonal, a window those before it") {
  // 1024 tokens: 8 blocks of queries, 36 tiles of keys on or under the diagonal; 10 heads on 10
  // SMs.
  const double tile = 8.359 + 1.024;
  PrefillWork w = prefill(1, 1024, 10);
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + 36 * tile).epsilon(2e-3));
  w.window = 128;  // two tiles a block, one in the first, and a further one beyond the window by
                   // the factor of 1 where there is room
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + (15 + 8) * tile).epsilon(2e-3));
  w.window = 0;
  w.causal = false;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + 64 * tile).epsilon(2e-3));
}

TEST_CASE("a kernel of Ampere's instructions runs at their share of the peak of later boards") {
  GpuSpec hopper = ampere();
  hopper.architecture = Architecture::Hopper;
  hopper.compute_capability = 90;
  for (PeakRate& peak : hopper.peaks) peak.rate = peak.rate * 4.0;  // whole tensor cores
  CostProfile profile = bare();
  profile.tensor_gemm.warp_share = 0.5;
  // 10 heads of 128 queries on 10 SMs, as above, at four times the peak, then at half of that.
  PrefillWork w = prefill(1, 128, 10);
  CHECK(us(w, hopper, profile) == doctest::Approx(5 + 8.359 / 4 + 1.024).epsilon(2e-3));
  w.by_warps = true;
  CHECK(us(w, hopper, profile) == doctest::Approx(5 + 2 * 8.359 / 4 + 1.024).epsilon(2e-3));
  CHECK(us(w, ampere(), profile) == doctest::Approx(5 + 8.359 + 1.024).epsilon(2e-3));
  hopper.compute_capability = 100;  // two generations later
  for (PeakRate& peak : hopper.peaks) peak.rate = peak.rate * 2.0;
  CHECK(us(w, hopper, profile) == doctest::Approx(5 + 4 * 8.359 / 8 + 1.024).epsilon(2e-3));
  // Tensor cores held back to less than that are all such a kernel needs.
  for (PeakRate& peak : hopper.peaks) peak.rate = peak.rate / 16.0;
  CHECK(us(w, hopper, profile) == doctest::Approx(5 + 2 * 8.359 + 1.024).epsilon(3e-2));
}

TEST_CASE("blocks are filled with heads of a group where an engine packs them") {
  // 16 tokens of 24 heads over one head of keys: 384 rows in 3 blocks, or 24 blocks of 16 rows.
  // Tiles have 16 of 128 keys.
  PrefillWork w = prefill(100, 16, 24);
  w.kv_heads = 1;
  const double row = (8.359 + 1.024) / 128 * 16 / 128;  // microseconds of a row with 16 keys
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + 10 * 24 * 16 * row).epsilon(0.02));
  w.engine = GemmEngine::SgLang;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + 10 * 3 * 128 * row).epsilon(0.02));
  // One token each: 24 rows of a pack, padded to 32, or 24 times 16.
  w.tokens = 1;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + 10 * 32 * row).epsilon(0.02));
  w.engine = GemmEngine::TensorRtLlm;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + 10 * 24 * 16 * row).epsilon(0.02));
}

TEST_CASE("a single block draws its keys slowly, parts of them faster") {
  // One sequence and head, 2560 keys of 256 values in 2 bytes: 10 parts of 256 keys. A part is
  // 131072 bytes at 96 bytes a clock and 16 rows x 256 keys x 256 multiply-adds at 0.9 of 1.024
  // TFLOP/s.
  DecodeWork w = decode(1, 2560, 16, 1);
  const double load = 131072 / 96e3, math = 2.0 * 16 * 256 * 256 / 0.9216e6;
  const double part = std::cbrt(load * load * load + math * math * math);
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + part).epsilon(0.01));
  // Ten sequences fill the SMs by themselves: a whole sequence each.
  w.batch = 10;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + 10 * part).epsilon(0.01));
}

TEST_CASE("TensorRT-LLM reads the keys of a large group once for each head") {
  // A group of 64 at once: 4096 keys of 512 bytes, 64 rows. Head by head: 64 waves of the same keys
  // at 32 values a clock, 4 rows each.
  DecodeWork w = decode(10, 4096, 64, 1);
  const auto both = [](double load, double math) {
    return 5 + std::cbrt(load * load * load + math * math * math);
  };
  const double keys = 4096.0 * 512 / 96e3, row = 2.0 * 4096 * 256 / 0.9216e6;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(both(keys, 64 * row)).epsilon(0.01));
  w.engine = GemmEngine::TensorRtLlm;
  CHECK(us(w, ampere(), bare()) ==
        doctest::Approx(both(64 * 4096 * 256 / 32e3, 64 * 4 * row)).epsilon(0.01));
  w.heads = 32;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(both(keys, 32 * row)).epsilon(0.01));
}

TEST_CASE(
    "FlashAttention 2 copies queries into groups, or with a window reads the keys for each head") {
  const GpuSpec gpu = ampere();
  CostProfile profile = bare();
  profile.attention.decode.copy_us = 3;
  struct Row {
    const char* what;
    double batch, kv_heads, copied_us;
  };
  const Row rows[] = {{"two sequences of two groups: there and back", 2, 2, 3},
                      {"one sequence lies as it should", 1, 2, 0},
                      {"one head of keys is one group", 2, 1, 0}};
  const auto over_others = [&](DecodeWork w) {
    w.engine = GemmEngine::Vllm;
    const double flash = us(w, gpu, profile);
    w.engine = GemmEngine::SgLang;
    return flash - us(w, gpu, profile);
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    DecodeWork w = decode(row.batch, 64, 8 * row.kv_heads, row.kv_heads);
    CHECK(over_others(w) == doctest::Approx(row.copied_us));
    w.fp8_cache = true;  // another kernel
    CHECK(over_others(w) == doctest::Approx(0));
  }
  // A block for each SM and group: with a window each of 8 heads has its own, and the SMs do 8
  // waves for 1, of loads and of arithmetic on rows padded to 16 alike. No copies then.
  DecodeWork w = decode(gpu.sm_count, 64, 8, 1);
  w.engine = GemmEngine::SgLang;
  const double grouped = us(w, gpu, profile) - 5;
  w.engine = GemmEngine::Vllm;
  w.window = 128;
  CHECK(us(w, gpu, profile) - 5 == doctest::Approx(8 * grouped).epsilon(0.01));
}

TEST_CASE("experts that get tokens multiply whole tiles") {
  // 10 experts, 128 rows each: gate and up are 256 columns of depth 1024, one tile of 128 x 256 on
  // each SM; down is 8 waves of 128 x 128 of depth 128.
  const ExpertsWork w = experts({.tokens = 1280, .per_token = 1, .experts = 10}, 1024, 128);
  const double rate = 0.97 * 1.024e6;  // FLOP a microsecond and SM
  const double in = 2.0 * 128 * 256 * 1024 / rate, out = 2.0 * 128 * 1024 * 128 / rate;
  CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + in + out).epsilon(0.01));
}

TEST_CASE("no tile of an expert's rows costs less than the 16 rows of an instruction") {
  // As above, with fewer rows for each of the 10 experts: tiles of 8 rows are there, and cost what
  // those of 16 do.
  const double rate = 0.97 * 1.024e6;  // FLOP a microsecond and SM
  struct Row {
    std::int64_t rows, paid;
  };
  for (const Row& row : {Row{1, 16}, {8, 16}, {16, 16}, {17, 32}, {24, 32}, {33, 48}}) {
    CAPTURE(row.rows);
    const ExpertsWork w =
        experts({.tokens = 10 * row.rows, .per_token = 1, .experts = 10}, 1024, 128);
    const auto paid = static_cast<double>(row.paid);
    const double in = 2 * paid * 256 * 1024 / rate, out = 2 * paid * 1024 * 128 / rate;
    CHECK(us(w, ampere(), bare()) == doctest::Approx(5 + in + out).epsilon(0.01));
  }
}

TEST_CASE("rows of other ranks are multiplied as one expert's, where a measured call has them") {
  ExpertsWork w = experts({.tokens = 1280, .per_token = 1, .experts = 10}, 1024, 128);
  const double own = us(w, ampere(), bare()) - 5;
  w.strays = 1280;  // ten more tiles of 128 rows
  CHECK(us(w, ampere(), bare()) - 5 == doctest::Approx(2 * own).epsilon(0.01));
  w.strays = 0;
  w.perhaps_strays = 1280;
  CostProfile profile = bare();
  profile.moe.experts.stray = 0.5;
  CHECK(us(w, ampere(), profile) - 5 == doctest::Approx(1.5 * own).epsilon(0.01));
}

TEST_CASE("SGLang keeps mxfp4 in 16 bits where it has no kernel for it") {
  GpuSpec gpu = ampere();
  gpu.dram_bandwidth = BytesPerSecond(1e9);  // weights take all the time
  ExpertsWork w =
      experts({.tokens = 8, .per_token = 1, .experts = 8}, 1024, 1024, ExpertFormat::Fp4Weights);
  w.engine = GemmEngine::Vllm;
  const double low_precision = us(w, gpu, bare());
  w.engine = GemmEngine::SgLang;
  CHECK(us(w, gpu, bare()) / low_precision == doctest::Approx(2 / 0.531).epsilon(0.02));
}

TEST_CASE("a call is the surer the more its kernel is like others") {
  CostProfile profile = bare();
  ErrorSd& error = profile.error[static_cast<std::size_t>(CostForm::Prefill)];
  error = {.measured = 0.1, .transferred = 0.2, .spec = 0.3};
  error.engine = {0.9, 1, 1.5};
  error.low_precision = 1.2;
  error.rare = 2;
  error.window = 1.25;
  PrefillWork w = prefill(1, 1024, 10);
  const auto sd = [&] { return price_call(w, ampere(), profile)->log_sd; };
  CHECK(sd() == doctest::Approx(0.3 * 0.9));
  w.engine = GemmEngine::Vllm;
  w.format = AttentionFormat::HalfOver8;
  CHECK(sd() == doctest::Approx(0.3 * 1.5 * 1.2));
  w.key_width = 192;
  CHECK(sd() == doctest::Approx(0.3 * 1.5 * 1.2 * 2));
  w.window = 512;
  CHECK(sd() == doctest::Approx(0.3 * 1.5 * 1.2 * 2 * 1.25));
  // The nearer its roofs, the surer: by the share of the call that they take.
  error.roof = 0.5;
  const CallPrice price = *price_call(w, ampere(), profile);
  const double share = price.estimate.roofs.compute / price.estimate.duration;
  CHECK(share > 0.5);
  CHECK(price.log_sd == doctest::Approx(0.3 * 1.5 * 1.2 * 2 * 1.25 * std::pow(0.5, share)));
}

TEST_CASE("Marlin's kernels run at their instructions' share of the peak of later boards") {
  GpuSpec hopper = ampere();
  hopper.architecture = Architecture::Hopper;
  hopper.compute_capability = 90;
  for (PeakRate& peak : hopper.peaks) peak.rate = peak.rate * 4.0;
  CostProfile profile = bare();
  profile.tensor_gemm.warp_share = 0.5;
  ExpertsWork w = experts({.tokens = 4096, .per_token = 1, .experts = 4}, 4096, 4096,
                          ExpertFormat::Int4Weights);
  const double library = us(w, hopper, profile) - 5;
  w.engine = GemmEngine::Vllm;
  CHECK(us(w, hopper, profile) - 5 == doctest::Approx(2 * library).epsilon(0.05));
  CHECK(us(w, ampere(), profile) - 5 == doctest::Approx(4 * library).epsilon(0.05));
}

// The power limit is found to a thousandth of the clock.
TEST_CASE("more to do never takes less, on no GPU and by no engine") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  const CostProfile& profile = default_cost_profile();
  Random random(22);
  for (int i = 0; i < 400; ++i) {
    const Work work = random_call(random);
    CAPTURE(work.index());
    for (const char* id : kGpus) {
      const GpuSpec gpu = gpus.find(id);
      const double before = us(work, gpu, profile);
      CAPTURE(i);
      CAPTURE(id);
      CHECK(before > 0);
      CHECK(before * 1e-6 >= least_seconds(work, gpu) * (1 - 1e-9));
      int n = 0;
      for (const Work& more : with_more(work)) {
        CAPTURE(n++);
        CHECK(us(more, gpu, profile) >= before * (1 - 2e-3));
      }
    }
  }
}

TEST_CASE("twice the hardware is never slower") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  const CostProfile& profile = default_cost_profile();
  Random random(2026);
  for (int i = 0; i < 300; ++i) {
    const Work work = random_call(random);
    for (const char* id : kGpus) {
      CAPTURE(i);
      CAPTURE(id);
      const GpuSpec gpu = gpus.find(id);
      CHECK(us(work, twice(gpu), profile) <= us(work, gpu, profile) * (1 + 2e-3));
      // Faster GDDR draws more power; leave it some.
      GpuSpec cool = gpu;
      cool.tdp = gpu.tdp * 3.0;
      GpuSpec wider = cool;
      wider.dram_bandwidth = gpu.dram_bandwidth * 2.0;
      CHECK(us(work, wider, profile) <= us(work, cool, profile) * (1 + 2e-3));
    }
  }
}

TEST_CASE("other work has no price as a call") {
  CHECK_FALSE(price_call(StreamWork{}, ampere(), bare()).has_value());
}

}  // namespace tracecast::cost
