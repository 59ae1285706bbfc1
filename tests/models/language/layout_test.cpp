#include "models/language/layout.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "models/language/config.hpp"
#include "sim/base/error.hpp"
#include "tests/support/configs.hpp"

using namespace tracecast;

namespace {

LanguageNetwork network_of(const std::string& name) {
  return read_config_json(config_text(name), name);
}

}  // namespace

TEST_SUITE_BEGIN("models/language/layout");

TEST_CASE("a shared network has the parameters of the whole one but for what it leaves out") {
  struct Row {
    const char* file;
    std::size_t left_out;
  };
  const Row rows[] = {
      {"llama3_8b", 0},     {"llama2_70b", 0},   {"mixtral_8x7b", 0},
      {"opt_1.3b", 0},      {"qwen2.5_7b", 1},   {"qwen3_14b", 0},
      {"qwen3_30b_a3b", 0}, {"gpt_oss_120b", 2}, {"deepseek_v3", 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const LanguageNetwork network = network_of(row.file);
    const ShardableNetwork whole = shardable(network, row.file);
    CHECK(whole.left_out.size() == row.left_out);
    const double all = parameters(network).total();
    if (row.left_out == 0) {
      CHECK(whole.layout.parameters() == all);
    } else {
      CHECK(whole.layout.parameters() < all);
      CHECK(whole.layout.parameters() > 0.998 * all);
    }
  }
}

TEST_CASE("windows of some layers are reported by the keys that all see together") {
  const TransformerLayout oss = shardable(network_of("gpt_oss_120b"), "").layout;
  CHECK(oss.window == 128);
  CHECK(oss.windowed_layers == 18);
  // Half of 36 layers see 126 of 4096 keys, half 2048: 1087, as a window of 1290 does.
  CHECK(oss.mean_window(4096) == 1290);
  CHECK(oss.mean_window(128) == 0);
  CHECK(shardable(network_of("llama3_8b"), "").layout.mean_window(4096) == 0);
  const AttentionAttributes mean{.queries = 4096, .keys = 4096, .causal = true, .window = 1290};
  CHECK(mean.keys_per_query() == doctest::Approx(0.5 * (128 - 2.0) + 0.5 * 2048).epsilon(0.001));
  const TransformerLayout scout = shardable(network_of("llama4_scout"), "").layout;
  CHECK(scout.window == 4096);
  CHECK(scout.windowed_layers == 36);
}

TEST_CASE("what has no sharded form is refused by its name") {
  for (const auto& [file, what] :
       {std::pair{"glm_5", "an indexer"}, std::pair{"qwen3.5_397b_a17b", "gated delta"},
        std::pair{"nemotron_h_8b", "Mamba 2"}}) {
    CAPTURE(file);
    try {
      (void)shardable(network_of(file), file);
      FAIL("it was taken");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(what) != std::string::npos);
    }
  }
}

TEST_SUITE_END();
