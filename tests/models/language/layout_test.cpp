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
      {"opt_1.3b", 0},      {"qwen2.5_7b", 1},   {"qwen3_14b", 1},
      {"qwen3_30b_a3b", 1}, {"gpt_oss_120b", 3}, {"deepseek_v3", 1},
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
