#include "models/transformer/shard.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "models/kept_activations.hpp"
#include "models/ops.hpp"
#include "models/recompute.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("models/transformer/shard");

/// A GPT layer: width 512, 8 heads; 2 sequences of 128 tokens.
const TransformerLayout kGpt{.layers = 4,
                             .width = 512,
                             .heads = 8,
                             .kv_heads = 8,
                             .feed_forward = 2048,
                             .vocabulary = 1000,
                             .positions = 128,
                             .dropout = true};
const TransformerShard kWhole{.micro_batch = 2, .tokens = 128, .flash_attention = false};

NetworkGraph training(const TransformerShard& shard) {
  return make_training_graph(sharded_layer(kGpt, shard, false),
                             {.with_loss = false, .with_optimizer = false});
}

/// Kept bytes in 16 bit, the layer's input with them.
double kept_bytes(const NetworkGraph& step, const TransformerShard& shard) {
  double bytes = 2.0 * 2 * static_cast<double>(shard.residual_tokens()) * 512;
  for (const TensorId id : kept_activations(step)) bytes += tensor_bytes(step.tensor(id), 2);
  return bytes;
}

TEST_CASE("a layer keeps the activations that Korthikanti et al. count") {
  // s = 128, b = 2, h = 512, a = 8: sbh = 131072, as / h = 2.
  struct Row {
    const char* what;
    std::int64_t tensor;
    bool sequence_parallel;
    double per_sbh;
  };
  const Row rows[] = {
      {"one rank: 34 + 5 as/h", 1, false, 34 + 5 * 2},
      {"tensor parallel: 10 + 24/t + 5 as/(ht)", 4, false, 10 + 24.0 / 4 + 5 * 2.0 / 4},
      {"and sequence parallel: (34 + 5 as/h) / t", 4, true, (34 + 5 * 2) / 4.0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    TransformerShard shard = kWhole;
    shard.tensor = row.tensor;
    shard.sequence_parallel = row.sequence_parallel;
    CHECK(kept_bytes(training(shard), shard) == doctest::Approx(131072 * row.per_sbh));
  }
}

TEST_CASE("selective recomputation keeps all but the attention between its GEMMs") {
  NetworkGraph step = training(kWhole);
  step = recompute_ops(std::move(step), [](const Op& op) { return op.name.starts_with("core"); });
  CHECK(kept_bytes(step, kWhole) == doctest::Approx(131072.0 * 34));
}

TEST_CASE("sharded GEMMs add up to the whole layer's") {
  TransformerShard quarter = kWhole;
  quarter.tensor = 4;
  const NetworkGraph whole = sharded_layer(kGpt, kWhole, false);
  const NetworkGraph part = sharded_layer(kGpt, quarter, false);
  CHECK(part.forward_macs() * 4 == doctest::Approx(whole.forward_macs()));
  // 256 rows x 12 h^2, and two GEMMs of 2 x 8 x 128 x 128 x 64
  CHECK(whole.forward_macs() ==
        doctest::Approx(256.0 * 12 * 512 * 512 + 2.0 * 2 * 8 * 128 * 128 * 64));
  TransformerShard flash = kWhole;
  flash.flash_attention = false;
  TransformerLayout encoder = kGpt;
  encoder.causal = false;
  flash.flash_attention = true;
  CHECK(sharded_layer(encoder, flash, false).forward_macs() ==
        doctest::Approx(whole.forward_macs()));
}

TEST_CASE("each rank's part of a vocabulary is whole blocks of 128 tokens, and no more") {
  for (const std::int64_t tokens : {1, 128, 1000, 32000, 50257, 128256}) {
    for (const std::int64_t tensor : {1, 2, 3, 8}) {
      CAPTURE(tokens);
      CAPTURE(tensor);
      const std::int64_t padded = padded_vocabulary(tokens, tensor);
      CHECK(padded % (128 * tensor) == 0);
      CHECK(padded >= tokens);
      CHECK(padded - tokens < 128 * tensor);
    }
  }
  // GPT-2's: 393 blocks on one rank, 50 on each of eight.
  CHECK(padded_vocabulary(50257, 1) == 393 * 128);
  CHECK(padded_vocabulary(50257, 8) == 50 * 128 * 8);
}

TEST_CASE("layouts of the zoo have its networks' parameters") {
  for (const ZooEntry& entry : zoo()) {
    if (!entry.transformer || !entry.parameters) continue;
    CAPTURE(entry.name);
    const double counted = entry.transformer->parameters();
    CHECK(counted == doctest::Approx(entry.parameters->value)
                         .epsilon(entry.parameters->unit / entry.parameters->value + 2e-3));
  }
}

TEST_CASE("a separate gate multiplies as much and keeps three activations of its width, not two") {
  TransformerLayout gated = kGpt;
  gated.gated = true;
  TransformerShard shard = kWhole;
  const auto step = [&] {
    return make_training_graph(sharded_layer(gated, shard, false),
                               {.with_loss = false, .with_optimizer = false});
  };
  const NetworkGraph packed = step();
  shard.separate_gate = true;
  const NetworkGraph separate = step();
  const auto gemms = [](const NetworkGraph& graph) {
    double macs = 0;
    int count = 0;
    for (const Op& op : graph.ops()) {
      const auto* a = std::get_if<MatMulAttributes>(&op.attributes);
      if (op.kind != OpKind::Linear || a == nullptr) continue;
      ++count;
      macs += static_cast<double>(a->m) * static_cast<double>(a->n) * static_cast<double>(a->k);
    }
    return std::pair(count, macs);
  };
  CHECK(gemms(separate).first == gemms(packed).first + 3);  // forward and both backward
  CHECK(gemms(separate).second == doctest::Approx(gemms(packed).second));
  // Packed: gate and feed-forward (2 x 2048 wide) and their GEMM; separate: the activated gate,
  // too.
  const double wide = 2.0 * 2 * 128 * 2048;
  CHECK(kept_bytes(separate, shard) - kept_bytes(packed, shard) == doctest::Approx(wide));
}

TEST_CASE("what does not divide is refused") {
  TransformerShard shard = kWhole;
  shard.tensor = 3;
  CHECK_THROWS_AS((void)sharded_layer(kGpt, shard, false), InputError);
  shard = kWhole;
  shard.context = 3;
  CHECK_THROWS_AS((void)sharded_layer(kGpt, shard, false), InputError);
}

TEST_CASE("sequence parallelism turns all-reduces into gathers and scatters of the same bytes") {
  TransformerShard shard = kWhole;
  shard.tensor = 4;
  const ShardCollectives plain = layer_collectives(kGpt, shard, false);
  CHECK(plain.forward.size() == 2);
  CHECK(plain.backward.size() == 2);
  CHECK(plain.forward.front().elements == doctest::Approx(2.0 * 128 * 512));
  shard.sequence_parallel = true;
  const ShardCollectives split = layer_collectives(kGpt, shard, false);
  CHECK(split.forward.size() == 4);
  CHECK(split.backward.size() == 6);  // inputs of both GEMMs are gathered again
}

/// DeepSeek's attention: keys of 32 + 16, values of 24, by way of 96 and 64.
const TransformerLayout kLatent{
    .layers = 1,
    .width = 512,
    .heads = 8,
    .kv_heads = 8,
    .feed_forward = 1024,
    .vocabulary = 1000,
    .norm = TransformerNorm::RootMeanSquare,
    .rotary = true,
    .gated = true,
    .biases = false,
    .tied = false,
    .causal = false,
    .latent = LatentHeads{
        .query_rank = 96, .kv_rank = 64, .nope_width = 32, .rope_width = 16, .value_width = 24}};
constexpr double kDown = 512 * 96 + 512 * (64 + 16);
constexpr double kOthers =
    96 * 8 * 48 + 64 * 8 * (32 + 24) + 8 * 24 * 512 + 3 * 512 * 1024;  // of heads and feed-forward
constexpr double kScores = 2 * 8 * 128 * 128 * (48 + 24);

TEST_CASE("latent attention goes down whole and up by heads") {
  TransformerShard shard = kWhole;
  shard.flash_attention = true;
  const double whole = sharded_layer(kLatent, shard, false).forward_macs();
  CHECK(whole == 256 * (kDown + kOthers) + kScores);
  CHECK(kLatent.forward_macs(128) * 2 == whole + 256 * 512 * 1000);
  CHECK(kLatent.parameters() ==
        kDown + kOthers + (96 + 64) + 2 * 512 + 2 * 512 * 1000 + 512);  // norms, tables, last norm
  shard.tensor = 4;
  CHECK(sharded_layer(kLatent, shard, false).forward_macs() * 4 ==
        256 * (4 * kDown + kOthers) + kScores);
  shard.sequence_parallel = true;  // each its part of the tokens
  CHECK(sharded_layer(kLatent, shard, false).forward_macs() * 4 == whole);
}

TEST_CASE("ranks of latent attention gather what its GEMMs down give") {
  TransformerShard shard = kWhole;
  shard.flash_attention = true;
  shard.tensor = 4;
  shard.sequence_parallel = true;
  const ShardCollectives sent = layer_collectives(kLatent, shard, false);
  REQUIRE(sent.forward.size() == 4);
  CHECK(sent.forward[0].elements == 256 * (96 + 64 + 16));
  CHECK(sent.forward[1].elements == 256 * 512);
  CHECK(sent.forward[2].elements == 256 * 512);  // into the feed-forward
  double back = 0;
  for (const ShardCollective& c : sent.backward) back += c.elements;
  CHECK(back == 256 * (2 * (96 + 64 + 16) + 4 * 512));
}

/// gpt-oss's kind of layer: 8 experts of 64, two a token, with biases and clamped operands.
const TransformerLayout kBiasedExperts{
    .layers = 1,
    .width = 512,
    .heads = 8,
    .kv_heads = 2,
    .feed_forward = 64,
    .vocabulary = 1000,
    .norm = TransformerNorm::RootMeanSquare,
    .rotary = true,
    .gated = true,
    .biases = false,
    .tied = false,
    .experts = ExpertLayout{
        .count = 8, .per_token = 2, .feed_forward = 64, .biases = true, .clamped = true}};

const Op* op_named(const NetworkGraph& graph, std::string_view name) {
  for (const Op& op : graph.ops()) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

TEST_CASE("scaled rotary positions are turned step by step, queries and keys by themselves") {
  TransformerShard shard = kWhole;
  shard.flash_attention = true;
  TransformerLayout layout = kBiasedExperts;
  CHECK(op_named(sharded_layer(layout, shard, true), "attn.rotary") != nullptr);
  layout.scales_rotation = true;
  const NetworkGraph graph = sharded_layer(layout, shard, true);
  CHECK(op_named(graph, "attn.rotary") == nullptr);
  for (const auto& [part, heads] : {std::pair{"attn.query", 8}, std::pair{"attn.key", 2}}) {
    for (const char* step :
         {".rotary.cos", ".rotary.half", ".rotary.sin", ".rotary.add", ".rotary.join"}) {
      const Op* op = op_named(graph, part + std::string(step));
      REQUIRE(op != nullptr);
      CHECK(element_count(graph.tensor(op->outputs.front()).shape) == 2 * 128 * heads * 64);
    }
  }
  CHECK(op_named(graph, "attn.value.rotary.cos") == nullptr);
  CHECK(graph.forward_macs() == sharded_layer(kBiasedExperts, shard, true).forward_macs());
}

TEST_CASE("a softmax is one kernel where heads times sequences of a rank divide by four") {
  constexpr TransformerLayout kLayout{.layers = 1,
                                      .width = 512,
                                      .heads = 16,
                                      .kv_heads = 16,
                                      .feed_forward = 2048,
                                      .vocabulary = 1000};
  TransformerShard shard = kWhole;
  shard.tensor = 8;  // two heads
  for (const auto& [sequences, tokens, is_fused] :
       {std::tuple{1, 128, false}, std::tuple{2, 128, true}, std::tuple{3, 128, false},
        std::tuple{2, 126, false}, std::tuple{2, 16, false}, std::tuple{4, 1024, true}}) {
    CAPTURE(sequences);
    CAPTURE(tokens);
    shard.micro_batch = sequences;
    shard.tokens = tokens;
    const NetworkGraph graph = sharded_layer(kLayout, shard, true);
    for (const char* step : {"core.float", "core.scale", "core.mask", "core.probabilities"}) {
      CHECK((op_named(graph, step) == nullptr) == is_fused);
    }
    REQUIRE(op_named(graph, "core.softmax") != nullptr);
    TransformerShard flash = shard;
    flash.flash_attention = true;
    CHECK(graph.parameter_count() == sharded_layer(kLayout, flash, true).parameter_count());
  }
}

TEST_CASE("heads are normalised before they are turned, queries and keys by themselves") {
  TransformerShard shard = kWhole;
  shard.flash_attention = true;
  TransformerLayout layout = kBiasedExperts;
  layout.norms_heads = true;
  const NetworkGraph graph = sharded_layer(layout, shard, true);
  for (const char* part : {"attn.query", "attn.key"}) {
    const Op* norm = op_named(graph, part + std::string(".norm"));
    const Op* rotary = op_named(graph, part + std::string(".rotary"));
    REQUIRE(norm != nullptr);
    REQUIRE(rotary != nullptr);
    CHECK(norm->kind == OpKind::Activation);
    CHECK(rotary->inputs.front() == norm->outputs.front());
  }
  CHECK(layout.attention_parameters() == kBiasedExperts.attention_parameters() + 2 * 64);
}

TEST_CASE("biases of experts are weighed in 32 bits, and their gradients are narrow again") {
  TransformerShard shard = kWhole;
  shard.flash_attention = true;
  const NetworkGraph step = make_training_graph(sharded_layer(kBiasedExperts, shard, true),
                                                {.with_loss = false, .with_optimizer = false});
  const auto is_wide = [&](std::string_view name) {
    const Op* op = op_named(step, name);
    REQUIRE(op != nullptr);
    return step.tensor(op->outputs.front()).is_wide;
  };
  CHECK(is_wide("experts.bias.mul"));
  CHECK(is_wide("experts.bias.add"));
  CHECK(is_wide("experts.bias.join"));
  CHECK_FALSE(is_wide("experts.bias.cast"));
  int casts = 0, of_probabilities = 0;
  for (const Op& op : step.ops()) {
    if (op.name == "experts.bias.add bwd" && op.kind == OpKind::Cast) {
      ++casts;
      CHECK_FALSE(step.tensor(op.outputs.front()).is_wide);
    }
    // Of a bias and of a probability, each summed over what the other one has.
    if (op.name.starts_with("experts.bias.mul bwd") && op.kind == OpKind::Reduce)
      ++of_probabilities;
  }
  CHECK(casts == 1);
  CHECK(of_probabilities == 2);
}

TEST_CASE("latent attention has neither adapters nor steps when divided") {
  TransformerShard steps = kWhole;
  CHECK_THROWS_AS((void)sharded_layer(kLatent, steps, false), InputError);
  TransformerShard adapted = kWhole;
  adapted.flash_attention = true;
  adapted.adapters.rank = 8;
  CHECK_THROWS_AS((void)sharded_layer(kLatent, adapted, false), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
