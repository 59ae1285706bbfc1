#include "models/language/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "models/language/config_object.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using language::ConfigObject;
using Reader = LanguageNetwork (*)(const ConfigObject&, std::string_view);

struct Family {
  std::string_view model_type;
  Reader read;
};

constexpr std::array<Family, 35> kFamilies{{
    {"bloom", language::read_bloom},
    {"deepseek_v2", language::read_latent},
    {"deepseek_v3", language::read_latent},
    {"deepseek_v32", language::read_latent},
    {"falcon", language::read_falcon},
    {"gemma", language::read_gemma},
    {"gemma2", language::read_gemma},
    {"gemma3_text", language::read_gemma},
    {"glm_moe_dsa", language::read_latent},
    {"gpt2", language::read_gpt2},
    {"gpt_neox", language::read_gpt_neox},
    {"gpt_oss", language::read_gpt_oss},
    {"internlm", language::read_dense},
    {"kimi_k2", language::read_latent},
    {"llama", language::read_dense},
    {"llama4_text", language::read_llama4},
    {"minimax_m2", language::read_minimax},
    {"mistral", language::read_dense},
    {"mixtral", language::read_mixture},
    {"nemotron_h", language::read_nemotron_h},
    {"opt", language::read_opt},
    {"phi", language::read_phi},
    {"phi3", language::read_dense},
    {"qwen", language::read_qwen1},
    {"qwen2", language::read_dense},
    {"qwen2_moe", language::read_mixture},
    {"qwen3", language::read_dense},
    {"qwen3_5_moe_text", language::read_delta_hybrid},
    {"qwen3_5_text", language::read_delta_hybrid},
    {"qwen3_moe", language::read_mixture},
    {"qwen3_next", language::read_delta_hybrid},
    {"kimi_k25", nullptr},
    {"llama4", nullptr},
    {"qwen3_5", nullptr},
    {"qwen3_5_moe", nullptr},
}};

/// What the text of a family of text and images is, where its text_config leaves model_type out.
std::string text_family(std::string_view outer) {
  if (outer == "kimi_k25") return "kimi_k2";
  return std::string(outer) + "_text";
}

const Family& find_family(const ConfigObject& config, const std::string& model_type) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const Family& f) { return f.model_type == model_type; });
  if (found != kFamilies.end()) return *found;
  config.fail("model_type", "\"" + model_type.substr(0, 40) + "\"",
              describe_choices(model_type.substr(0, 40), language_families()));
}

nlohmann::json parse(std::string_view bytes, std::string_view where) {
  if (bytes.size() > kMostConfigBytes) {
    throw InputError(where, fmt::format("{} bytes", bytes.size()),
                     fmt::format("a config.json of at most {} bytes", kMostConfigBytes));
  }
  try {
    return nlohmann::json::parse(bytes);
  } catch (const nlohmann::json::parse_error& error) {
    throw InputError(fmt::format("{}, byte {}", where, error.byte), "no JSON",
                     "a config.json as transformers writes it");
  } catch (const nlohmann::json::exception&) {  // a number beyond all range
    throw InputError(where, "no JSON", "a config.json as transformers writes it");
  }
}

}  // namespace

std::vector<std::string> language_families() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  std::sort(names.begin(), names.end());
  return names;
}

std::string stored_precision(std::string_view bytes, std::string_view where) {
  const nlohmann::json document = parse(bytes, where);
  const ConfigObject whole(document, std::string(where));
  auto quantized = whole.child("quantization_config");
  if (!quantized) {
    if (const auto text = whole.child("text_config"))
      quantized = text->child("quantization_config");
  }
  if (!quantized) return {};
  const std::string method = to_lower(quantized->text_or("quant_method", "an unnamed method"));
  if (method == "fp8") return quantized->has("weight_block_size") ? "fp8_block" : "fp8";
  if (method == "fbgemm_fp8") return "fp8";
  if (method == "mxfp4") return method;
  const auto weights_alone = [&](std::int64_t bits) {
    return bits == 4 ? "int4_wo" : bits == 8 ? "int8_wo" : method;
  };
  if (method == "gptq" || method == "awq") return weights_alone(quantized->count_or("bits", 4));
  if (method == "modelopt") {
    const std::string algorithm = to_lower(quantized->text_or("quant_algo", ""));
    return algorithm == "fp8" || algorithm == "nvfp4" ? algorithm : method;
  }
  if (method != "compressed-tensors") return method;
  const auto groups = quantized->child("config_groups");
  const auto group = groups ? groups->child("group_0") : std::nullopt;
  const auto weights = group ? group->child("weights") : std::nullopt;
  if (!weights) return method;
  const std::int64_t bits = weights->count_or("num_bits", 0);
  if (weights->text_or("type", "") == "float") {
    if (bits == 4) return "nvfp4";
    return weights->text_or("strategy", "") == "block" ? "fp8_block" : "fp8";
  }
  if (bits == 8 && group->has("input_activations")) return "int8";
  return weights_alone(bits);
}

LanguageNetwork read_config_json(std::string_view bytes, std::string_view where) {
  const nlohmann::json document = parse(bytes, where);
  const ConfigObject config(document, std::string(where));
  const std::string model_type = config.text("model_type");
  const Family& outer = find_family(config, model_type);
  LanguageNetwork network;
  if (outer.read != nullptr) {
    network = outer.read(config, outer.model_type);
    network.scales_rotation = language::scales_rotation(config);
  } else {
    const auto text = config.child("text_config");
    if (!text) config.fail("text_config", "nothing", "the sizes of the text's layers");
    const Family& inner = find_family(*text, text->text_or("model_type", text_family(model_type)));
    if (inner.read == nullptr) {
      text->fail("model_type", "\"" + std::string(inner.model_type) + "\"", "a family of text");
    }
    network = inner.read(*text, inner.model_type);
    network.scales_rotation = language::scales_rotation(*text);
    if (model_type == "llama4") {
      if (const auto vision = config.child("vision_config")) {
        network.encoder_parameters = language::llama4_encoder_parameters(*vision, network.width);
      }
    }
  }
  check(network, where);
  return network;
}

}  // namespace tracecast
