#include "models/language/graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "models/language/config.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "tests/support/configs.hpp"

using namespace tracecast;

namespace {

LanguageNetwork network_of(const std::string& name) {
  return read_config_json(config_text(name), name);
}

std::size_t count(const NetworkGraph& graph, OpKind kind) {
  const auto ops = graph.ops();
  return static_cast<std::size_t>(
      std::count_if(ops.begin(), ops.end(), [&](const Op& op) { return op.kind == kind; }));
}

}  // namespace

TEST_SUITE_BEGIN("models/language/graph");

TEST_CASE("a graph has exactly the parameters that its network counts") {
  for (const std::string& name : config_names()) {
    CAPTURE(name);
    const LanguageNetwork network = network_of(name);
    const NetworkGraph graph = language_graph(network, {.batch = 2, .tokens = 32});
    CHECK(static_cast<double>(graph.parameter_count()) == parameters(network).total());
  }
}

TEST_CASE("a token's multiply-adds are its active parameters and what scores and contexts take") {
  struct Row {
    const char* file;
    double attention;  ///< per layer and key: heads times widths of key and value
    double others;     ///< parameters that no GEMM reads: norms, biases
  };
  constexpr double kTokens = 64;
  const Row rows[] = {
      {"llama3_8b", 32 * 2 * 128., 65 * 4096.},
      {"yi_34b", 56 * 2 * 128., 121 * 7168.},
      // Norms, and biases of queries, keys and values.
      {"qwen2.5_7b", 28 * 2 * 128., 57 * 3584. + 28 * (28 + 2 * 4) * 128.},
      // 61 layers: two norms and those of both latents; a correction per expert in 58 of them.
      {"deepseek_v3", 128 * (192 + 128.), 123 * 7168. + 61 * (1536 + 512.) + 58 * 256.},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const LanguageNetwork network = network_of(row.file);
    const NetworkGraph graph =
        language_graph(network, {.batch = 1, .tokens = static_cast<std::int64_t>(kTokens)});
    const double layers = static_cast<double>(network.layers());
    const double macs =
        kTokens * (active_parameters(network) - row.others + layers * kTokens * row.attention);
    CHECK(graph.forward_macs() == doctest::Approx(macs).epsilon(1e-12));
  }
}

TEST_CASE("every network trains: each weight that a token passes gets an update") {
  for (const char* name : {"bloom_176b", "deepseek_v3", "falcon_40b", "gemma3_1b", "gpt_oss_20b",
                           "llama4_scout", "minimax_m2.5", "mixtral_8x7b", "nemotron_h_8b",
                           "opt_1.3b", "phi_2", "qwen1.5_moe_a2.7b", "qwen3.5_397b_a17b"}) {
    CAPTURE(name);
    const NetworkGraph forward = language_graph(network_of(name), {.batch = 1, .tokens = 16});
    const auto tensors = forward.tensors();
    const auto weights = std::count_if(tensors.begin(), tensors.end(), [](const Tensor& t) {
      return t.role == TensorRole::Weight;
    });
    CHECK(count(make_training_graph(forward, {}), OpKind::Optimizer) ==
          static_cast<std::size_t>(weights));
  }
}

TEST_CASE("an indexer's choice passes no gradient") {
  const NetworkGraph forward = language_graph(network_of("glm_5"), {.batch = 1, .tokens = 16});
  const NetworkGraph step = make_training_graph(forward, {});
  CHECK(count(forward, OpKind::TopKeys) == 78);
  CHECK(count(step, OpKind::TopKeys) == 78);
}

TEST_CASE("few tokens meet few experts") {
  // One token of Qwen3-30B-A3B: 8 of 128 experts, each 3 x 2048 x 768.
  const LanguageNetwork network = network_of("qwen3_30b_a3b");
  const NetworkGraph graph = language_graph(network, {.batch = 1, .tokens = 1});
  double macs_of_experts = 0;
  for (const Op& op : graph.ops()) {
    if (op.name.find(".experts.") != std::string::npos) macs_of_experts += macs(op);
  }
  CHECK(macs_of_experts == 48 * 8 * 3 * 2048. * 768);
}

TEST_CASE("a layer with a state has one scan, and nothing is left without a cost model") {
  CHECK(count(language_graph(network_of("qwen3.5_397b_a17b"), {.tokens = 64}), OpKind::Scan) == 45);
  CHECK(count(language_graph(network_of("nemotron_h_8b"), {.tokens = 64}), OpKind::Scan) == 24);
  for (const std::string& name : config_names()) {
    CAPTURE(name);
    const NetworkGraph forward = language_graph(network_of(name), {.batch = 1, .tokens = 16});
    CHECK(count(forward, OpKind::Unknown) == 0);
  }
}

TEST_CASE("attention in one kernel has the same weights, half the scores and no copies of heads") {
  const LanguageNetwork network = network_of("llama3_8b");
  const NetworkGraph steps = language_graph(network, {.batch = 2, .tokens = 64});
  const NetworkGraph fused =
      language_graph(network, {.batch = 2, .tokens = 64, .attention = AttentionKernels::Fused});
  CHECK(fused.parameter_count() == steps.parameter_count());
  CHECK(count(fused, OpKind::Attention) == 32);
  CHECK(count(fused, OpKind::Softmax) == 0);
  CHECK(count(fused, OpKind::Transpose) == 0);
  // 2 sequences, 32 layers and heads, 64 x 64 scores of which half lie in the future, 2 GEMMs of
  // 128.
  CHECK(steps.forward_macs() - fused.forward_macs() == 2. * 32 * 32 * 64 * 64 / 2 * 2 * 128);
}

TEST_CASE("every network trains with attention in one kernel, and has its parameters") {
  for (const AttentionKernels attention : {AttentionKernels::Fused, AttentionKernels::Sparse}) {
    for (const std::string& name : config_names()) {
      CAPTURE(name);
      const LanguageNetwork network = network_of(name);
      const NetworkGraph forward =
          language_graph(network, {.batch = 1, .tokens = 16, .attention = attention});
      CHECK(static_cast<double>(forward.parameter_count()) == parameters(network).total());
      const auto tensors = forward.tensors();
      const auto weights = std::count_if(tensors.begin(), tensors.end(), [](const Tensor& t) {
        return t.role == TensorRole::Weight;
      });
      CHECK(count(forward, OpKind::Unknown) == 0);
      // An indexer's choice passes no gradient: its five weights get none (two GEMMs, a key's GEMM,
      // its norm).
      if (count(forward, OpKind::TopKeys) > 0) continue;
      CHECK(count(make_training_graph(forward, {}), OpKind::Optimizer) ==
            static_cast<std::size_t>(weights));
    }
  }
}

TEST_CASE(
    "32-bit operands whose heads share keys go through PyTorch's own steps where it says so") {
  const auto graph_of = [](const char* name, std::optional<AttentionKernels> grouped) {
    return language_graph(network_of(name), {.batch = 1,
                                             .tokens = 64,
                                             .attention = AttentionKernels::Fused,
                                             .grouped_attention = grouped});
  };
  // llama3_8b: 32 layers, 32 heads on 8 of keys. Of each layer all scores stand in memory.
  const NetworkGraph composed = graph_of("llama3_8b", AttentionKernels::Composed);
  CHECK(count(composed, OpKind::Attention) == 0);
  CHECK(count(composed, OpKind::Softmax) == 32);
  const auto scores =
      std::count_if(composed.tensors().begin(), composed.tensors().end(), [](const Tensor& t) {
        return t.shape == Shape{1, 32, 64, 64} && !t.is_integer;
      });
  CHECK(scores == 32 * 4);  // GEMMs, the mask added in place, softmax, zeros for empty rows
  CHECK(composed.parameter_count() == graph_of("llama3_8b", {}).parameter_count());
  CHECK(count(graph_of("llama3_8b", {}), OpKind::Attention) == 32);
  // One head of keys per head of queries: any kernel takes it.
  CHECK(count(graph_of("llama2_7b", AttentionKernels::Composed), OpKind::Attention) == 32);
}

TEST_CASE("norms and logits are cast to 32 bits where the network runs as written in 16") {
  const LanguageNetwork network = network_of("llama3_8b");
  const auto wide = [&](bool casts, bool training) {
    const NetworkGraph graph = language_graph(network, {.tokens = 16,
                                                        .attention = AttentionKernels::Fused,
                                                        .casts_as_written = casts,
                                                        .training = training});
    return count(graph, OpKind::Cast);
  };
  CHECK(wide(false, true) == 0);
  // 65 norms, there and back; the logits of a training step.
  CHECK(wide(true, false) == 2 * 65);
  CHECK(wide(true, true) == 2 * 65 + 1);
}

TEST_CASE("sinks and linear positions keep to steps where PyTorch runs them") {
  const auto fused = [](const char* name) {
    return count(
        language_graph(network_of(name), {.tokens = 16, .attention = AttentionKernels::Fused}),
        OpKind::Attention);
  };
  CHECK(fused("gpt_oss_20b") == 0);
  CHECK(fused("bloom_176b") == 0);
  CHECK(fused("opt_1.3b") == 24);
}

TEST_CASE("a window spares scores only where kernels skip what it hides") {
  // gemma3_1b: 26 layers, every sixth without a window, of 512 tokens.
  const LanguageNetwork network = network_of("gemma3_1b");
  double scores[2] = {};
  for (int sparse = 0; sparse < 2; ++sparse) {
    const NetworkGraph graph = language_graph(
        network,
        {.tokens = 4096, .attention = sparse ? AttentionKernels::Sparse : AttentionKernels::Fused});
    for (const Op& op : graph.ops()) {
      if (op.kind == OpKind::Attention) {
        scores[sparse] += std::get<AttentionAttributes>(op.attributes).scores();
      }
    }
  }
  // 4 layers see 2048 keys a query; 22 all 4096 under a mask, or 512 - 512 * 512 / 8192 = 480. 4
  // heads.
  CHECK(scores[0] == 4. * 4096 * (4 * 2048. + 22 * 4096.));
  CHECK(scores[1] == 4. * 4096 * (4 * 2048. + 22 * 480.));
}

TEST_CASE("a sequence as long as the window has a mask, a shorter one has none") {
  // mistral_7b: 32 layers, a window of 4096; transformers leaves the mask out below it.
  const LanguageNetwork network = network_of("mistral_7b");
  struct Row {
    std::int64_t tokens;
    bool is_causal;
    std::int64_t kv_heads;
  };
  const Row rows[] = {{2048, true, 8}, {4096, false, 32}};
  for (const Row& row : rows) {
    CAPTURE(row.tokens);
    const NetworkGraph graph =
        language_graph(network, {.tokens = row.tokens, .attention = AttentionKernels::Fused});
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::Attention) continue;
      const auto& a = std::get<AttentionAttributes>(op.attributes);
      CHECK(a.causal == row.is_causal);
      CHECK(a.kv_heads == row.kv_heads);
    }
  }
}

TEST_CASE("sparse attention reads the latents that an indexer chose, for the same weights") {
  // GLM-5: 78 layers, 64 heads, latents of 512 + 64, 2048 keys chosen.
  const LanguageNetwork network = network_of("glm_5");
  const NetworkGraph graph =
      language_graph(network, {.tokens = 4096, .attention = AttentionKernels::Sparse});
  CHECK(static_cast<double>(graph.parameter_count()) == parameters(network).total());
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::Attention) continue;
    const auto& a = std::get<AttentionAttributes>(op.attributes);
    CHECK(a.kv_heads == 1);
    CHECK(a.chosen == 2048);
    CHECK(a.width == 576);
    CHECK(a.width_of_values() == 512);
    CHECK(a.keys_per_query() == 2048);
  }
}

TEST_CASE("a network of the zoo is what its config.json says") {
  struct Row {
    const char *file, *network;
  };
  const Row rows[] = {
      {"codellama_34b", "codellama_34b"},
      {"llama2_7b", "llama2_7b"},
      {"llama2_70b", "llama2_70b"},
      {"llama3_8b", "llama3_8b"},
      {"llama3_70b", "llama3_70b"},
      {"yi_34b", "yi_34b"},
      {"internlm_20b", "internlm_20b"},
      {"mistral_nemo_12b", "mistral_nemo_12b"},
      {"mixtral_8x7b", "mixtral_8x7b"},
      {"phi_2", "phi_2"},
      {"qwen_72b", "qwen_72b"},
      {"qwen2.5_7b", "qwen2.5_7b"},
      {"qwen2.5_14b", "qwen2.5_14b"},
      {"qwen3_14b", "qwen3_14b"},
      {"qwen3_32b", "qwen3_32b"},
      {"qwen3_30b_a3b", "qwen3_30b_a3b"},
      {"qwen3_235b_a22b", "qwen3_235b_a22b"},
      {"qwen3.5_397b_a17b", "qwen3.5_397b_a17b"},
      {"deepseek_v3", "deepseek_v3"},
      {"kimi_k2.5", "kimi_k2.5"},
      {"glm_5", "glm_5"},
      {"gpt_oss_120b", "gpt_oss_120b"},
      {"gpt_oss_20b", "gpt_oss_20b"},
      {"minimax_m2.5", "minimax_m2.5"},
      {"llama4_scout", "llama4_scout"},
      {"bloom_176b", "bloom_176b"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const ZooEntry* entry = find_network(row.network);
    REQUIRE(entry != nullptr);
    REQUIRE((entry->language != nullptr));
    LanguageNetwork file = network_of(row.file);
    const LanguageNetwork zoo = entry->language();
    // The zoo has one name for Llama and its kin, the longest context of a name's releases, and no
    // encoders.
    CHECK(zoo.context >= file.context);
    file.family = zoo.family;
    file.context = zoo.context;
    file.encoder_parameters = 0;
    CHECK((file == zoo));
  }
}

TEST_CASE("families that the zoo builds by their own sources have the same GEMMs") {
  struct Row {
    const char *file, *network;
  };
  for (const Row& row : {Row{"bloom_176b", "bloom_176b"}, Row{"opt_1.3b", "opt_1.3b"},
                         Row{"gpt_neox_20b", "gpt_neox_20b"}}) {
    CAPTURE(row.file);
    const NetworkGraph file = language_graph(network_of(row.file), {.batch = 1, .tokens = 128});
    const NetworkGraph zoo = build_network(row.network, {.batch = 1, .seq_len = 128});
    CHECK(file.parameter_count() == zoo.parameter_count());
    CHECK(file.forward_macs() == zoo.forward_macs());
  }
}

TEST_CASE("sequences of no tokens, or more than there are positions, are refused") {
  CHECK_THROWS_AS((void)language_graph(network_of("llama3_8b"), {.tokens = 0}), InputError);
  CHECK_THROWS_AS((void)language_graph(network_of("llama3_8b"), {.tokens = (1 << 20) + 1}),
                  InputError);
  CHECK_NOTHROW((void)language_graph(network_of("opt_1.3b"), {.tokens = 2048}));
  // Its table has two rows more, which no token of its own stands at.
  CHECK_THROWS_AS((void)language_graph(network_of("opt_1.3b"), {.tokens = 2049}), InputError);
}

TEST_SUITE_END();
