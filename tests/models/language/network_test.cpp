#include "models/language/network.hpp"

#include <doctest/doctest.h>

#include "models/language/config.hpp"
#include "sim/base/error.hpp"
#include "tests/support/configs.hpp"

using namespace tracecast;

TEST_SUITE_BEGIN("models/language/network");

TEST_CASE("a sequence leaves what its layers keep") {
  struct Row {
    const char* file;
    double growing, indices, windowed, fixed;
  };
  const Row rows[] = {
      // 32 layers, 8 heads of 128: keys and values.
      {"llama3_8b", 32 * 2 * 8 * 128., 0, 0, 0},
      // 61 layers, latents of 512 and 64 turned.
      {"deepseek_v3", 61 * 576., 0, 0, 0},
      {"glm_5", 78 * 576., 78 * 128., 0, 0},
      // 18 layers of either kind, 8 heads of 64.
      {"gpt_oss_120b", 18 * 2 * 8 * 64., 0, 18 * 2 * 8 * 64., 0},
      // 15 layers of attention, 2 heads of 256; 45 states of 64 x 128 x 128 and 3 tokens of 12288
      // channels.
      {"qwen3.5_397b_a17b", 15 * 2 * 2 * 256., 0, 0, 45 * (64 * 128 * 128. + 3 * 12288.)},
      // 4 layers of attention, 8 heads of 128; 24 states of 8192 x 128 and 3 tokens of 8192 + 2 * 8
      // * 128 channels.
      {"nemotron_h_8b", 4 * 2 * 8 * 128., 0, 0, 24 * (8192 * 128. + 3 * 10240.)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const SequenceState state = sequence_state(read_config_json(config_text(row.file), row.file));
    CHECK(state.growing == row.growing);
    CHECK(state.indices == row.indices);
    CHECK(state.windowed == row.windowed);
    CHECK(state.fixed == row.fixed);
  }
}

TEST_CASE("windows stop growing, states never grow") {
  const SequenceState state{.growing = 10, .windowed = 4, .window = 100, .fixed = 7};
  CHECK(cache_bytes(state, 50, Bytes(2)) == Bytes(2 * (50 * 14 + 7)));
  CHECK(cache_bytes(state, 1000, Bytes(1)) == Bytes(1000 * 10 + 100 * 4 + 7));
}

TEST_CASE("tokens of an MoE take few of its parameters") {
  struct Row {
    const char* file;
    double active, tolerance;
  };
  // Model cards: Qwen3-30B-A3B 3.3 B, Qwen3-235B-A22B 22 B and DeepSeek-V3 37 B with the words'
  // table; GLM-5 40 B; gpt-oss 5.13 B and 3.61 B with one table.
  const Row rows[] = {
      {"deepseek_v3", 37e9, 0.02},     {"glm_5", 40e9, 0.03},
      {"gpt_oss_120b", 5.13e9, 0.002}, {"gpt_oss_20b", 3.61e9, 0.002},
      {"qwen3_235b_a22b", 22e9, 0.03},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const double active = active_parameters(read_config_json(config_text(row.file), row.file));
    CHECK(active == doctest::Approx(row.active).epsilon(row.tolerance));
  }
}

TEST_CASE("weights take the bits of their kind") {
  const LanguageNetwork oss = read_config_json(config_text("gpt_oss_120b"), "gpt_oss_120b");
  const ParameterShares shares = parameters(oss);
  WeightBits bits = WeightBits::all(16);
  CHECK(weight_bytes(shares, bits) == Bytes(2 * shares.total()));
  bits.experts = 4.25;
  CHECK(weight_bytes(shares, bits).in_bytes() ==
        doctest::Approx(2 * (shares.total() - shares.experts) + shares.experts * 4.25 / 8));
}

TEST_CASE("a network whose parts disagree is refused") {
  LanguageNetwork network{.width = 64, .vocabulary = 100};
  const auto with = [&](const LanguageMixer& mixer) {
    LanguageNetwork changed = network;
    add_layer(changed, {.mixer = mixer, .feed_forward = DenseFeedForward{.width = 128}});
    return changed;
  };
  CHECK_NOTHROW(
      check(with(GroupedQueryAttention{.heads = 4, .kv_heads = 2, .head_width = 16}), ""));
  CHECK_THROWS_AS(check(with(GroupedQueryAttention{.heads = 4, .kv_heads = 3}), ""), InputError);
  CHECK_THROWS_AS(check(with(GroupedQueryAttention{.heads = 4, .kv_heads = 8}), ""), InputError);
  CHECK_THROWS_AS(check(with(GatedDeltaNet{.key_heads = 3, .value_heads = 4}), ""), InputError);
  CHECK_THROWS_AS(check(with(Mamba2{.heads = 4, .groups = 3}), ""), InputError);
  CHECK_THROWS_AS(check(network, ""), InputError);  // no layer
}

TEST_SUITE_END();
