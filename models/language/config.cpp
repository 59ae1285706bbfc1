#include "models/language/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "models/encoder/config.hpp"
#include "models/encoder/parts.hpp"
#include "models/language/config_object.hpp"
#include "models/language/families.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using language::ConfigObject;
using language::DecoderFamily;
using Reader = LanguageNetwork (*)(const ConfigObject&, std::string_view);

/// Families with a reader of their own.
struct OwnReader {
  std::string_view model_type;
  Reader read;
};
constexpr auto kOwnReaders = std::to_array<OwnReader>({
    {"llama4_text", language::read_llama4},
    {"nemotron-nas", language::read_nemotron_nas},
    {"nemotron_h", language::read_nemotron_h},
    {"qwen3_5_moe_text", language::read_delta_hybrid},
    {"qwen3_5_text", language::read_delta_hybrid},
    {"qwen3_next", language::read_delta_hybrid},
});

/// Families of text and images or sound: where their text is described, and what it is where that
/// says no model_type. Sources: transformers, configuration_FAMILY.py; the files beside the weights
/// of those that are not in it.
struct Outer {
  std::string_view model_type, text_family;
  std::string_view text = "text_config";
};
constexpr auto kOuters = std::to_array<Outer>({
    {"aya_vision", "cohere2"},
    {"cohere2_vision", "cohere2"},
    {"gemma3", "gemma3_text"},
    {"gemma4", "gemma4_text"},
    {"glm4v", "glm4v_text"},
    {"glm4v_moe", "glm4v_moe_text"},
    {"granite_speech", "granite"},
    {"idefics2", "mistral"},
    {"idefics3", "llama"},
    {"internvl", "qwen2"},
    {"internvl_chat", "qwen2", "llm_config"},
    {"kimi_k25", "kimi_k2"},
    {"kimi_vl", "deepseek_v3"},
    {"llama4", "llama4_text"},
    {"llava", "llama"},
    {"llava_next", "llama"},
    {"llava_next_video", "llama"},
    {"llava_onevision", "qwen2"},
    {"minimax_m3_vl", "minimax_m3_vl_text"},
    {"mistral3", "mistral"},
    {"paligemma", "gemma"},
    {"qwen2_5_vl", "qwen2_5_vl_text"},
    {"qwen2_audio", "qwen2"},
    {"qwen2_vl", "qwen2_vl_text"},
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"qwen3_vl", "qwen3_vl_text"},
    {"qwen3_vl_moe", "qwen3_vl_moe_text"},
    {"smolvlm", "llama"},
    {"video_llava", "llama"},
    {"vipllava", "llama"},
    {"voxtral", "llama"},
});

template <class Rows>
auto find_row(const Rows& rows, std::string_view model_type) -> const typename Rows::value_type* {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto& row) { return row.model_type == model_type; });
  return found == rows.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_family(const ConfigObject& config, const std::string& model_type) {
  const std::string shown = model_type.substr(0, 40);
  std::vector<std::string> known = language_families();
  const std::vector<std::string> encoders = encoder_families();
  if (std::find(encoders.begin(), encoders.end(), model_type) != encoders.end()) {
    config.fail("model_type", "\"" + shown + "\", which is no decoder alone",
                "a family that generates text token by token, such as llama");
  }
  known.insert(known.end(), encoders.begin(), encoders.end());
  std::sort(known.begin(), known.end());
  config.fail("model_type", "\"" + shown + "\"", describe_choices(shown, known));
}

/// Names under which a family's first files stand.
constexpr std::pair<std::string_view, std::string_view> kEarlierNames[] = {
    {"RefinedWeb", "falcon"},
    {"RefinedWebModel", "falcon"},
    {"Yi", "yi"},
    {"phi-msft", "phi"},
    {"stablelm_epoch", "stablelm"},
    {"MiniMaxText01", "minimax_text_01"},
    {"MiniMaxM1", "minimax_m1"},
};

LanguageNetwork read_text(const ConfigObject& config, std::string model_type) {
  for (const auto& [earlier, name] : kEarlierNames) {
    if (model_type == earlier) model_type = name;
  }
  LanguageNetwork network;
  if (const auto* own = find_row(kOwnReaders, model_type)) {
    network = own->read(config, own->model_type);
  } else if (const auto* row = find_row(language::decoder_families(), model_type)) {
    network = language::read_decoder(config, *row);
  } else {
    refuse_family(config, model_type);
  }
  network.scales_rotation = language::scales_rotation(config);
  network.unread = config.unread_sizes();
  return network;
}

LanguageNetwork read_text_of(const ConfigObject& config, const Outer& outer) {
  const auto text = config.child(outer.text);
  // Earlier files of some families state the text's sizes beside the encoder.
  if (!text && config.has(config.first_of(language::keys::kWidth))) {
    return read_text(config, std::string(outer.text_family));
  }
  if (!text) config.fail(outer.text, "nothing", "the sizes of the text's layers");
  const std::string family = text->text_or("model_type", outer.text_family);
  if (find_row(kOuters, family) != nullptr) {
    text->fail("model_type", "\"" + family + "\"", "a family of text");
  }
  // Parts of a file leave out what their class has anyway.
  const nlohmann::json defaults =
      nlohmann::json::parse(language::class_defaults(family), nullptr, true, true);
  return read_text(text->with_defaults(defaults), family);
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
  for (const OwnReader& family : kOwnReaders) names.emplace_back(family.model_type);
  for (const Outer& family : kOuters) names.emplace_back(family.model_type);
  for (const DecoderFamily& family : language::decoder_families()) {
    names.emplace_back(family.model_type);
  }
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
  if (!config.has("model_type") && config.has("_class_name")) {
    const std::string name = config.text("_class_name");
    if (name.ends_with("Pipeline")) {
      config.fail("_class_name", "\"" + name.substr(0, 60) + "\", a pipeline",
                  "one of its parts: unet/config.json, transformer/config.json, vae/config.json");
    }
    refuse_family(config, name);
  }
  const std::string model_type = config.text("model_type");
  LanguageNetwork network;
  if (const Outer* outer = find_row(kOuters, model_type)) {
    network = read_text_of(config, *outer);
    const auto vision = config.child("vision_config");
    if (model_type == "llama4" && vision) {
      network.encoder_parameters = language::llama4_encoder_parameters(*vision, network.width);
    } else {
      const double count = encoder::image_part_parameters(config, model_type, network.width);
      network.encoder_parameters = std::max(count, 0.0);
      if (count < 0) network.unread.emplace_back("vision_config");
    }
  } else {
    network = read_text(config, model_type);
  }
  check(network, where);
  return network;
}

}  // namespace tracecast
