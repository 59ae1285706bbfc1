#include "models/language/config.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/configs.hpp"

using namespace tracecast;
using Json = nlohmann::json;

namespace {

LanguageNetwork read(const Json& config) { return read_config_json(config.dump(), "config.json"); }

/// The error's line; empty when none was thrown.
std::string error_of(const std::string& bytes) {
  try {
    (void)read_config_json(bytes, "config.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Json llama() { return Json::parse(config_text("llama3_8b")); }

}  // namespace

TEST_SUITE_BEGIN("models/language/config");

TEST_CASE("how weights are stored is read from quantization_config, in the words of serve") {
  const Json eight_bits = {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}};
  const auto groups = [](const Json& weights, const Json& activations) {
    return Json{{"quant_method", "compressed-tensors"},
                {"config_groups",
                 {{"group_0", {{"weights", weights}, {"input_activations", activations}}}}}};
  };
  struct Row {
    const char* what;
    Json quantization;
    const char* word;
  };
  const Row rows[] = {
      {"none", nullptr, ""},
      {"DeepSeek-V3", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}, "fp8_block"},
      {"fp8 by tensor", {{"quant_method", "fp8"}}, "fp8"},
      {"gpt-oss", {{"quant_method", "mxfp4"}}, "mxfp4"},
      {"AWQ", {{"quant_method", "awq"}, {"bits", 4}}, "int4_wo"},
      {"GPTQ of 8 bits", {{"quant_method", "gptq"}, {"bits", 8}}, "int8_wo"},
      {"GPTQ of 3 bits", {{"quant_method", "gptq"}, {"bits", 3}}, "gptq"},
      {"ModelOpt", {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}, "nvfp4"},
      {"groups of floats", groups(eight_bits, eight_bits), "fp8"},
      {"groups of 8-bit integers", groups({{"num_bits", 8}, {"type", "int"}}, eight_bits), "int8"},
      {"groups of 4-bit weights", groups({{"num_bits", 4}, {"type", "int"}}, nullptr), "int4_wo"},
      {"another", {{"quant_method", "HQQ"}}, "hqq"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    Json config = llama();
    config["quantization_config"] = row.quantization;
    CHECK(stored_precision(config.dump(), "config.json") == row.word);
  }
  CHECK_THROWS_AS((void)stored_precision(R"({"quantization_config": 8})", "config.json"),
                  InputError);
}

TEST_CASE("every family's file gives its published parameters") {
  struct Row {
    const char* file;
    double parameters;  ///< of the text's layers, unless with_encoder
    double tolerance;   ///< 0: to the last one
    bool with_encoder = false;
    bool with_prediction = false;  ///< the card counts layers that predict further tokens
  };
  const Row rows[] = {
      // Checkpoints on Hugging Face by their safetensors index, tied weights once.
      {"codellama_34b", 33'743'970'304, 0},
      {"llama2_7b", 6'738'415'616, 0},
      {"llama2_70b", 68'976'648'192, 0},
      {"llama3_8b", 8'030'261'248, 0},
      {"llama3_70b", 70'553'706'496, 0},
      {"llama3.1_8b", 8'030'261'248, 0},
      {"yi_34b", 34'388'917'248, 0},
      {"mistral_7b", 7'241'732'096, 0},
      {"mistral_nemo_12b", 12'247'782'400, 0},
      {"mixtral_8x7b", 46'702'792'704, 0},
      {"mixtral_8x22b", 140'620'634'112, 0},
      {"phi_2", 2'779'683'840, 0},
      {"qwen_72b", 72'287'920'128, 0},
      {"qwen2.5_7b", 7'615'616'512, 0},
      {"qwen2.5_14b", 14'770'033'664, 0},
      {"opt_1.3b", 1'315'758'080, 0},
      {"gpt_neox_20b", 20'554'567'680, 0},
      {"gpt2", 124'439'808, 0},
      {"gpt2_xl", 1'557'611'200, 0},
      {"llama4_scout", 108'641'793'536, 0, true},
      // Text and images, encoder and all: checkpoints by their index, some parts of which are
      // counted otherwise.
      {"llava_1.5_7b", 7.063427e9, 0.0005, true},
      {"llava_1.6_mistral_7b", 7.566748e9, 0.0005, true},
      {"paligemma_3b", 2.923466e9, 0.0005, true},
      {"gemma3_4b", 4.300079e9, 0.0005, true},
      {"gemma3_27b", 27.43241e9, 0.0005, true},
      {"qwen2_vl_7b", 8.291376e9, 0.0005, true},
      {"qwen2.5_vl_7b", 8.292167e9, 0.0005, true},
      {"qwen2.5_vl_3b", 3.754623e9, 0.0005, true},
      {"qwen3_vl_8b", 8.767124e9, 0.0005, true},
      {"mistral_small_3.1_24b", 24.01136e9, 0.0005, true},
      {"pixtral_12b", 12.68e9, 0.0005, true},
      {"smolvlm_2.2b", 2.246273e9, 0.0005, true},
      {"internvl3_8b", 7.944374e9, 0.0005, true},
      // BLOOM's model card.
      {"bloom_176b", 176'247'271'424, 0},
      // Model cards, rounded as they print it: Qwen3-14B, -32B, -30B-A3B, -235B-A22B,
      // Qwen3.5-397B-A17B, Qwen1.5-MoE-A2.7B
      // (14.3 B), DeepSeek-V3 (main network, 671 B), DeepSeek-V2-Lite (15.7 B), GLM-5 (744 B),
      // internlm-20b (20 B).
      {"qwen3_14b", 14.8e9, 0.005},
      {"qwen3_32b", 32.8e9, 0.005},
      {"qwen3_30b_a3b", 30.5e9, 0.005},
      {"qwen3_235b_a22b", 235e9, 0.005},
      {"qwen3.5_397b_a17b", 397e9, 0.005},
      {"deepseek_v3", 671e9, 0.005},
      {"glm_5", 744e9, 0.005},
      {"internlm_20b", 20e9, 0.005},
      // OpenAI, gpt-oss model card, table 1.
      {"gpt_oss_120b", 116.83e9, 0.0005},
      {"gpt_oss_20b", 20.91e9, 0.0005},
      // Hugging Face prints 229 B for MiniMax-M2.5 and 8.1 B for Nemotron-H-8B.
      {"minimax_m2.5", 229e9, 0.005},
      // The card prints "1T"; llama.cpp counts 1.026 T in the checkpoint of Kimi-K2, whose text
      // Kimi-K2.5 shares.
      {"kimi_k2.5", 1.026e12, 0.005},
      // Checkpoints by their safetensors index, tied weights once; Pythia, BLOOM and OLMo by their
      // cards.
      {"pythia_6.9b", 6'857'302'016, 0},
      {"pythia_70m", 70'426'624, 0},
      {"gptj_6b", 6'050'882'784, 0},
      {"bloom_560m", 559'214'592, 0},
      {"bloom_7b1", 7'069'016'064, 0},
      {"opt_6.7b", 6'658'473'984, 0},
      {"opt_350m", 331'196'416, 0},
      {"qwen2.5_0.5b", 494'032'768, 0},
      {"llama3.2_1b", 1'235'814'400, 0},
      {"llama3.2_3b", 3'212'749'824, 0},
      // Rounded as the cards and indices print them; of stablelm-2-12b, GLM-4-32B and Apertus to
      // the millions: norms of heads and two numbers of
      // xIELU are counted otherwise.
      {"glm_4.6", 357e9, 0.005, false, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const LanguageNetwork network = read_config_json(config_text(row.file), row.file);
    const double count = parameters(network).total() +
                         (row.with_encoder ? network.encoder_parameters : 0.0) +
                         (row.with_prediction ? prediction_parameters(network).total() : 0.0);
    CHECK(std::abs(count - row.parameters) <= row.tolerance * row.parameters);
  }
}

TEST_CASE("rotary positions are scaled where YaRN's factor is not undone") {
  struct Row {
    const char* rope;
    bool scales;
  };
  const Row rows[] = {
      {R"({"rope_type": "yarn", "factor": 32.0})", true},
      {R"({"type": "yarn", "factor": 4})", true},
      {R"({"rope_type": "yarn", "factor": 1.0})", false},
      {R"({"rope_type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0})", false},
      {R"({"rope_type": "yarn", "factor": 40, "mscale": 0.7, "mscale_all_dim": 1.0})", true},
      {R"({"rope_type": "yarn", "factor": 4, "attention_factor": 1.0})", false},
      {R"({"rope_type": "llama3", "factor": 8.0})", false},
      {R"({"factor": 8.0})", false},
  };
  const std::string text = config_text("llama3_8b");
  for (const Row& row : rows) {
    CAPTURE(row.rope);
    std::string with = text;
    with.insert(with.find('{') + 1, std::string("\"rope_scaling\": ") + row.rope + ",");
    CHECK(read_config_json(with, "").scales_rotation == row.scales);
  }
  std::string broken = text;
  broken.insert(broken.find('{') + 1,
                R"("rope_scaling": {"rope_type": "yarn", "factor": "many"},)");
  CHECK_THROWS_WITH_AS((void)read_config_json(broken, "c.json"),
                       doctest::Contains("rope_scaling.factor"), InputError);
  CHECK(read_config_json(config_text("gpt_oss_20b"), "").scales_rotation);
  // Of a network with an encoder, what its text says.
  std::string inside = config_text("llama4_scout");
  const std::size_t inner = inside.find('{', inside.find("\"text_config\""));
  REQUIRE(inner != std::string::npos);
  inside.insert(inner + 1, R"("rope_scaling": {"rope_type": "yarn", "factor": 4},)");
  CHECK(read_config_json(inside, "").scales_rotation);
}

TEST_CASE("layers are what the files say, one by one") {
  const LanguageNetwork oss = read_config_json(config_text("gpt_oss_20b"), "");
  const auto window = [&](std::size_t i) {
    return std::get<GroupedQueryAttention>(oss.layer(i).mixer).window;
  };
  CHECK(window(0) == 128);
  CHECK(window(1) == 0);
  const LanguageNetwork deepseek = read_config_json(config_text("deepseek_v3"), "");
  CHECK(std::holds_alternative<DenseFeedForward>(deepseek.layer(2).feed_forward));
  CHECK(std::holds_alternative<ExpertFeedForward>(deepseek.layer(3).feed_forward));
  CHECK(deepseek.prediction_layers == 1);
  const LanguageNetwork hybrid = read_config_json(config_text("qwen3.5_397b_a17b"), "");
  CHECK(std::holds_alternative<GatedDeltaNet>(hybrid.layer(2).mixer));
  CHECK(std::get<GroupedQueryAttention>(hybrid.layer(3).mixer).output_gate);
  CHECK(std::get<GroupedQueryAttention>(hybrid.layer(3).mixer).rotary_width == 64);
  const LanguageNetwork nemotron = read_config_json(config_text("nemotron_h_8b"), "");
  CHECK(nemotron.layers() == 52);
  CHECK(std::holds_alternative<Mamba2>(nemotron.layer(0).mixer));
  CHECK(std::holds_alternative<std::monostate>(nemotron.layer(1).mixer));
  CHECK(std::holds_alternative<GroupedQueryAttention>(nemotron.layer(7).mixer));
}

TEST_CASE("rules of single families place mixers, windows, turned heads and experts") {
  const auto network_of = [](const char* name) {
    return read_config_json(config_text(name), name);
  };
  const auto attention = [](const LanguageNetwork& network, std::size_t i) {
    return std::get<GroupedQueryAttention>(network.layer(i).mixer);
  };
  // Jamba: attention in the fifth of eight, experts in every second.
  const LanguageNetwork jamba = network_of("jamba_v0.1");
  CHECK(std::holds_alternative<Mamba>(jamba.layer(3).mixer));
  CHECK(std::holds_alternative<GroupedQueryAttention>(jamba.layer(4).mixer));
  CHECK(std::holds_alternative<DenseFeedForward>(jamba.layer(0).feed_forward));
  CHECK(std::holds_alternative<ExpertFeedForward>(jamba.layer(1).feed_forward));
  // Kimi Linear: three of the delta rule, one of latent attention; the last but two and the last,
  // too.
  const LanguageNetwork kimi = network_of("kimi_linear_48b");
  CHECK(std::get<GatedDeltaNet>(kimi.layer(2).mixer).decay_rank == 128);
  CHECK(std::holds_alternative<LatentAttention>(kimi.layer(3).mixer));
  CHECK(std::holds_alternative<LatentAttention>(kimi.layer(26).mixer));
  // Command R7B: three windows that turn their heads, one layer that sees all and turns none.
  const LanguageNetwork command = network_of("command_r7b");
  CHECK(attention(command, 2).window == 4096);
  CHECK(attention(command, 2).rotary_width == 128);
  CHECK(attention(command, 3).window == 0);
  CHECK(attention(command, 3).rotary_width == 0);
  // GPT-Neo: the first sees all, the second 256 tokens. SmolLM 3: every fourth layer turns no
  // heads.
  CHECK(attention(network_of("gpt_neo_2.7b"), 0).window == 0);
  CHECK(attention(network_of("gpt_neo_2.7b"), 1).window == 256);
  CHECK(attention(network_of("smollm3_3b"), 3).rotary_width == 0);
  CHECK(attention(network_of("smollm3_3b"), 4).rotary_width == 128);
  // Falcon: one head of keys, side by side behind one norm; the largest with eight heads and two
  // norms.
  CHECK(attention(network_of("falcon_7b"), 0).kv_heads == 1);
  CHECK(network_of("falcon_7b").layer(0).shared_norm);
  CHECK(attention(network_of("falcon_180b"), 0).kv_heads == 8);
  CHECK(!network_of("falcon_180b").layer(0).shared_norm);
  // Falcon-H1: both mixers in each layer. OLMo 2: norms of results alone.
  CHECK(std::holds_alternative<Mamba2>(network_of("falcon_h1_0.5b").layer(0).beside));
  CHECK(network_of("olmo2_7b").layer(0).norms_after);
  CHECK(!network_of("olmo2_7b").layer(0).norms_before);
  // Baichuan 2: the larger has linear positions.
  CHECK(network_of("baichuan2_7b").positions == LanguagePositions::Rotary);
  CHECK(network_of("baichuan2_13b").positions == LanguagePositions::Alibi);
  // Gemma 4: layers that see everything have heads twice as wide, whose keys are the values; the
  // last 20 layers of 35 of E2B read earlier keys with feed-forwards twice as wide. Its card
  // counts 2.3 G without the layers' own table.
  const LanguageNetwork gemma = network_of("gemma4_31b"), small = network_of("gemma4_e2b");
  CHECK(attention(gemma, 4).head_width == 256);
  CHECK(attention(gemma, 5).head_width == 512);
  CHECK(attention(gemma, 5).keys_are_values);
  CHECK(!attention(small, 14).borrows_keys);
  CHECK(attention(small, 15).borrows_keys);
  CHECK(std::get<DenseFeedForward>(small.layer(15).feed_forward).width == 2 * 6144);
  CHECK(parameters(small).total() - small.layer_input_table() ==
        doctest::Approx(2.3e9).epsilon(0.01));
  // DeepSeek-V4: windows alone, then entries of 4 tokens chosen and of 128 in turn.
  const LanguageNetwork fourth = network_of("deepseek_v4_flash");
  const auto rate = [&](std::size_t i) {
    return std::get<CompressedAttention>(fourth.layer(i).mixer).rate;
  };
  CHECK(rate(0) == 0);
  CHECK(rate(2) == 4);
  CHECK(rate(3) == 128);
  CHECK(fourth.streams == 4);
  // Sizes layer by layer: 0.5 times 2048 is four times 256; 0.63 times is five.
  CHECK(std::get<DenseFeedForward>(network_of("openelm_1.1b").layer(0).feed_forward).width == 1024);
  CHECK(std::get<DenseFeedForward>(network_of("openelm_1.1b").layer(1).feed_forward).width == 1280);
}

TEST_CASE("what a sequence leaves in memory follows the layers") {
  const auto state_of = [](const char* name) {
    return sequence_state(read_config_json(config_text(name), name));
  };
  // One head of keys of 64 channels in 32 layers; 8 in 80.
  CHECK(state_of("falcon_7b").growing == 32 * 2 * 64.);
  CHECK(state_of("falcon_180b").growing == 80 * 2 * 8 * 64.);
  // 8192 channels with 16 states and 3 tokens of the convolution each, in 64 layers; none grows.
  CHECK(state_of("falcon_mamba_7b").growing == 0);
  CHECK(state_of("falcon_mamba_7b").fixed == 64 * 8192. * (16 + 3));
  // Ten layers of eight heads, seventy with 64 states of 128 x 128.
  CHECK(state_of("minimax_text_01").growing == 10 * 2 * 8 * 128.);
  CHECK(state_of("minimax_text_01").fixed == 70 * 64 * 128. * 128);
  // Fifteen of 35 layers have keys of their own: three of one head of 512, twelve of one of 256
  // with a window.
  CHECK(state_of("gemma4_e2b").growing == 3 * 2 * 512.);
  CHECK(state_of("gemma4_e2b").windowed == 12 * 2 * 256.);
  // 43 layers with 128 keys that are values; one entry of 512 for 4 tokens in 21, for 128 in 20.
  CHECK(state_of("deepseek_v4_flash").windowed == 43 * 512.);
  CHECK(state_of("deepseek_v4_flash").growing == 21 * 512 / 4. + 20 * 512 / 128.);
  // Both in each of 36 layers.
  CHECK(state_of("falcon_h1_0.5b").growing == 36 * 2 * 2 * 64.);
  CHECK(state_of("falcon_h1_0.5b").fixed == 36 * (1536. * 128 + (1536 + 2 * 128) * 3));
}

TEST_CASE("blocks of a searched network have heads, widths and gaps of their own") {
  const Json config = Json::parse(R"({
    "model_type": "nemotron-nas", "hidden_size": 1024, "num_hidden_layers": 3,
    "num_attention_heads": 8, "vocab_size": 1000, "max_position_embeddings": 4096,
    "block_configs": [
      {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.625}},
      {"attention": {"no_op": true}, "ffn": {"ffn_mult": 1.0}},
      {"attention": {"n_heads_in_group": 8}, "ffn": {"no_op": true}}]})");
  const LanguageNetwork network = read(config);
  // 2 x 2.625 x 1024 / 3 = 1792 = 7 x 256; 2 x 1024 / 3 = 682: 768.
  CHECK(std::get<DenseFeedForward>(network.layer(0).feed_forward).width == 1792);
  CHECK(std::get<DenseFeedForward>(network.layer(1).feed_forward).width == 768);
  CHECK(std::get<GroupedQueryAttention>(network.layer(2).mixer).kv_heads == 1);
  CHECK(std::holds_alternative<std::monostate>(network.layer(1).mixer));
  const double attention = 1024. * (1024 + 1024) + 2 * 1024. * 2 * 128;
  const double last = 1024. * (1024 + 1024) + 2 * 1024. * 128;
  CHECK(parameters(network).total() ==
        2 * 1000 * 1024. + attention + last + 3 * 1024. * (1792 + 768) + 4 * 1024. + 1024);
}

TEST_CASE("sizes that no reader knows are named, what changes no shape is not") {
  Json config = llama();
  config["router_rank"] = 64;
  config["bos_token_id"] = 128000;
  config["num_beams"] = 4;
  config["extra"] = {{"branch_dim", 16}};
  CHECK(read(config).unread == std::vector<std::string>{"extra.branch_dim", "router_rank"});
  for (const std::string& name : config_names()) {
    CAPTURE(name);
    CHECK(read_config_json(config_text(name), name).unread.empty());
  }
}

TEST_CASE("an unknown family is answered with the known ones") {
  Json config = llama();
  config["model_type"] = "falcn";
  CHECK(contains(error_of(config.dump()), "falcon"));
  CHECK(language_families().size() >= 110);
}

TEST_CASE("the file of a text's layers alone gives what the file of text and images gives") {
  const Json both = Json::parse(config_text("qwen3.5_397b_a17b"));
  CHECK(read(both["text_config"]) == read(both));
}

TEST_CASE("broken and contradictory files give one line with the key") {
  struct Row {
    const char* key;
    Json value;
    const char* says;
  };
  const Row rows[] = {
      {"model_type", "lama", "llama"},
      {"model_type", 7, "model_type"},
      {"model_type", nullptr, "model_type"},
      {"hidden_size", nullptr, "hidden_size"},
      {"hidden_size", -4096, "hidden_size"},
      {"hidden_size", 0, "hidden_size"},
      {"hidden_size", 4097, "hidden_size"},
      {"hidden_size", "4096", "hidden_size"},
      {"hidden_size", 4096.5, "hidden_size"},
      {"hidden_size", 18'446'744'073'709'551'615ULL, "hidden_size"},
      {"hidden_size", 16'000'000, "1048576"},
      {"num_hidden_layers", 1'000'000, "num_hidden_layers"},
      {"num_attention_heads", 0, "num_attention_heads"},
      {"num_key_value_heads", 64, "num_key_value_heads"},
      {"num_key_value_heads", 5, "num_key_value_heads"},
      {"tie_word_embeddings", "no", "tie_word_embeddings"},
      {"hidden_act", "sinc", "hidden_act"},
      {"partial_rotary_factor", 1.5, "partial_rotary_factor"},
      {"partial_rotary_factor", "all", "partial_rotary_factor"},
      {"layer_types", Json::array({"full_attention"}), "layer_types"},
      {"vocab_size", 1 << 25, "vocab_size"},
  };
  for (const Row& row : rows) {
    Json config = llama();
    config[row.key] = row.value;
    CAPTURE(config.dump());
    const std::string error = error_of(config.dump());
    CHECK(contains(error, "config.json"));
    CHECK(contains(error, row.says));
    CHECK(!contains(error, "\n"));
  }
  Json moe = Json::parse(config_text("mixtral_8x7b"));
  moe["num_experts_per_tok"] = 9;
  CHECK(contains(error_of(moe.dump()), "num_experts_per_tok"));
  moe["num_experts_per_tok"] = 2;
  moe["num_local_experts"] = 100'000;
  CHECK(contains(error_of(moe.dump()), "one by one"));
  Json latent = Json::parse(config_text("deepseek_v3"));
  latent["first_k_dense_replace"] = 62;
  CHECK(contains(error_of(latent.dump()), "first_k_dense_replace"));
  Json pattern = Json::parse(config_text("nemotron_h_8b"));
  pattern["hybrid_override_pattern"] = std::string(52, 'X');
  CHECK(contains(error_of(pattern.dump()), "hybrid_override_pattern"));
  Json nested = Json::parse(config_text("kimi_k2.5"));
  nested["text_config"]["q_lora_rank"] = -1;
  CHECK(contains(error_of(nested.dump()), "text_config.q_lora_rank"));
  Json borrowed = Json::parse(config_text("gemma4_e2b"));
  borrowed["num_kv_shared_layers"] = 34;
  CHECK(contains(error_of(borrowed.dump()), "keys of another"));
  nested["text_config"] = Json::array();
  CHECK(contains(error_of(nested.dump()), "text_config"));
  CHECK(contains(error_of("[]"), "object"));
  CHECK(contains(error_of(""), "byte"));
  CHECK(contains(error_of(std::string(100'000, '[')), "byte"));
  CHECK(contains(error_of("{\"hidden_size\": 1e999}"), "JSON"));
  CHECK(contains(error_of("{\"model_type\": \"\xff\"}"), "config.json"));
}

TEST_CASE("files cut off or with one key gone are read or refused, never more") {
  for (const std::string& name : config_names()) {
    CAPTURE(name);
    const std::string text = config_text(name);
    for (std::size_t length = 0; length + 1 < text.size(); length += 7) {
      CHECK(!error_of(text.substr(0, length)).empty());
    }
    const Json whole = Json::parse(text);
    for (const auto& [key, value] : whole.items()) {
      for (const Json& other : {Json(nullptr), Json(-1), Json(1), Json("x"), Json(1 << 23),
                                Json::array({1}), Json::object(), Json(true)}) {
        Json changed = whole;
        changed[key] = other;
        (void)error_of(changed.dump());  // anything but InputError ends the test
      }
    }
  }
}

TEST_SUITE_END();
