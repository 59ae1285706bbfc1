#include "models/encoder/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "models/encoder/families.hpp"
#include "models/language/config.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace encoder {
namespace {

constexpr std::string_view kVitDefaults =
    R"({"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "image_size": 224, "patch_size": 16, "num_channels": 3})";
constexpr std::string_view kClipDefaults =
    R"({"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "image_size": 224, "patch_size": 32, "num_channels": 3})";
constexpr std::string_view kPixtralDefaults =
    R"({"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 4096, "image_size": 1024, "patch_size": 16, "num_channels": 3})";

constexpr auto kRows = std::to_array<EncoderFamily>({
    {"AutoencoderKL", denoiser, true},
    {"FluxTransformer2DModel", denoiser, true},
    {"SD3Transformer2DModel", denoiser, true},
    {"UNet2DConditionModel", denoiser, true},
    {"albert", text_encoder},
    {"bart", encoder_decoder},
    {"beit", image_encoder, true, kVitDefaults},
    {"bert", text_encoder},
    {"camembert", text_encoder},
    {"clip", two_towers, true},
    {"clip_vision_model", image_encoder, true, kClipDefaults},
    {"convnext", staged_image_encoder, true},
    {"convnextv2", staged_image_encoder, true},
    {"data2vec-text", text_encoder},
    {"deberta", text_encoder},
    {"deberta-v2", text_encoder},
    {"deit", image_encoder, true, kVitDefaults},
    {"dinov2", image_encoder, true, kVitDefaults},
    {"dinov2_with_registers", image_encoder, true, kVitDefaults},
    {"distilbert", text_encoder},
    {"electra", text_encoder},
    {"ernie", text_encoder},
    {"hubert", sound_encoder},
    {"idefics2_vision", image_encoder, true, kClipDefaults},
    {"idefics3_vision", image_encoder, true, kClipDefaults},
    {"intern_vit_6b", image_encoder, true, kVitDefaults},
    {"internvl_vision", image_encoder, true, kVitDefaults},
    {"m2m_100", encoder_decoder},
    {"marian", encoder_decoder},
    {"mbart", encoder_decoder},
    {"modernbert", text_encoder},
    {"mpnet", text_encoder},
    {"mt5", encoder_decoder},
    {"nomic_bert", text_encoder},
    {"pegasus", encoder_decoder},
    {"pixtral", image_encoder, true, kPixtralDefaults},
    {"roberta", text_encoder},
    {"roberta-prelayernorm", text_encoder},
    {"segformer", staged_image_encoder, true},
    {"siglip", two_towers, true},
    {"siglip_vision_model", image_encoder, true, kVitDefaults},
    {"smolvlm_vision", image_encoder, true, kClipDefaults},
    {"swin", staged_image_encoder, true},
    {"t5", encoder_decoder},
    {"umt5", encoder_decoder},
    {"vit", image_encoder, true, kVitDefaults},
    {"vit_msn", image_encoder, true, kVitDefaults},
    {"wav2vec2", sound_encoder},
    {"whisper", sound_encoder},
    {"xlm-roberta", text_encoder},
    {"xlm-roberta-xl", text_encoder},
});

const EncoderFamily* find_row(std::string_view family) {
  const auto found = std::find_if(kRows.begin(), kRows.end(),
                                  [&](const EncoderFamily& r) { return r.model_type == family; });
  return found == kRows.end() ? nullptr : &*found;
}

/// Nothing where the bytes are no object.
nlohmann::json document_of(std::string_view bytes) {
  if (bytes.size() > kMostConfigBytes) return nullptr;
  try {
    return nlohmann::json::parse(bytes);
  } catch (const nlohmann::json::exception&) {
    return nullptr;
  }
}

constexpr std::int64_t kMostTokens = 1 << 20, kMostSide = 1 << 14;

}  // namespace

std::span<const EncoderFamily> encoder_rows() { return kRows; }

bool is_for(const Question& question, std::string_view task) {
  if (question.is_part || !question.config.has("architectures")) return false;
  const std::vector<std::string> names = question.config.texts("architectures");
  return !names.empty() && names[0].ends_with(task);
}

std::int64_t labels_of(const ConfigObject& config) {
  constexpr std::int64_t kUsual = 2;
  if (const std::size_t named = config.entries("id2label"); named > 0) {
    return static_cast<std::int64_t>(named);
  }
  return config.size_or("num_labels", kUsual);
}

std::int64_t layers_of(const ConfigObject& config, std::string_view key, std::int64_t usual) {
  const std::int64_t layers = usual > 0 ? config.size_or(key, usual) : config.size(key);
  if (layers > language::kMostLayers) config.fail(key, std::to_string(layers), "at most 4096");
  return layers;
}

std::int64_t tokens_of(const Question& question, std::int64_t positions) {
  constexpr std::int64_t kUsual = 512;
  const std::int64_t tokens = question.options.seq_len.value_or(std::min(positions, kUsual));
  if (tokens < 1 || tokens > std::min(positions, kMostTokens)) {
    throw InputError("--seq-len", std::to_string(tokens),
                     fmt::format("1 to {}", std::min(positions, kMostTokens)));
  }
  return tokens;
}

std::int64_t side_of(const Question& question, std::int64_t usual, std::int64_t patch) {
  const std::int64_t side = question.options.image_size.value_or(usual);
  if (side < patch || side > kMostSide) {
    throw InputError("--image-size", std::to_string(side),
                     fmt::format("{} to {}", patch, kMostSide));
  }
  return side / patch * patch;  // what is left over is cut off
}

Run run_of(GraphBuilder& b, const Question& question) {
  return {.b = b,
          .attention = question.options.attention,
          .training = question.options.training,
          .constant = zoo_builders::scalar(b, "constant")};
}

TensorId first_token(GraphBuilder& b, const std::string& name, TensorId x) {
  const Shape shape = b.shape(x);
  return b.reshape(name + ".view", b.slice(name, x, {shape[0], 1, shape[2]}), {shape[0], shape[2]});
}

TensorId pooled(GraphBuilder& b, const std::string& name, TensorId x, bool tanh) {
  const TensorId first = first_token(b, name + ".first", x);
  const TensorId y = b.linear_layer(name + ".dense", first, b.shape(first).back(), true);
  return tanh ? b.activation(name + ".tanh", y, "tanh") : y;
}

}  // namespace encoder

std::string encoder_family(std::string_view bytes) {
  const nlohmann::json document = encoder::document_of(bytes);
  if (!document.is_object()) return {};
  for (const char* key : {"model_type", "_class_name"}) {
    const auto found = document.find(key);
    if (found == document.end() || !found->is_string()) continue;
    if (encoder::find_row(found->get<std::string>()) != nullptr) return found->get<std::string>();
  }
  return {};
}

EncoderNetwork read_encoder_config(std::string_view bytes, std::string_view where,
                                   const BuildOptions& options) {
  const nlohmann::json document = encoder::document_of(bytes);
  const std::string family = encoder_family(bytes);
  const encoder::EncoderFamily* row = encoder::find_row(family);
  TRACECAST_CHECK(row != nullptr, "the family was found before");
  const language::ConfigObject config(document, std::string(where));
  if (options.image_size && !row->reads_images) {
    throw InputError("--image-size", std::to_string(*options.image_size),
                     fmt::format("no such flag: {} reads no images", where));
  }
  if (options.batch < 1) throw InputError("--batch", std::to_string(options.batch), "1 or more");
  EncoderNetwork result{
      .graph = row->build({.config = config, .options = options, .family = row->model_type})};
  const std::vector<std::string> unread = config.unread_sizes();
  if (!unread.empty()) {
    result.warnings.push_back("sizes that the configuration states and that are not known here: " +
                              fmt::format("{}", fmt::join(unread, ", ")));
  }
  return result;
}

std::string denoiser_of_pipeline(std::string_view bytes) {
  const nlohmann::json document = encoder::document_of(bytes);
  if (!document.is_object()) return {};
  const auto name = document.find("_class_name");
  if (name == document.end() || !name->is_string()) return {};
  if (!name->get<std::string>().ends_with("Pipeline")) return {};
  for (const char* part : {"unet", "transformer"}) {
    // A list of library and class; both null where the pipeline lacks the part.
    const auto found = document.find(part);
    if (found != document.end() && found->is_array() && !found->empty() &&
        (*found)[0].is_string()) {
      return part;
    }
  }
  return {};
}

std::vector<std::string> encoder_families() {
  std::vector<std::string> names;
  for (const encoder::EncoderFamily& row : encoder::kRows) names.emplace_back(row.model_type);
  return names;
}

}  // namespace tracecast
