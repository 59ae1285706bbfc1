#include "models/encoder/parts.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "models/encoder/families.hpp"

/// Encoders inside files of images and text, and what leads from them to the text: counted, not
/// run. Sources: transformers, modeling_FAMILY.py.
namespace tracecast::encoder {
namespace {

double wide(std::int64_t size) { return static_cast<double>(size); }
double linear(double in, double out, bool bias) { return in * out + (bias ? out : 0.0); }

/// Two linear layers with biases, an activation between.
double two_layers(const ConfigObject&, double vision, double text) {
  return linear(vision, text, true) + linear(text, text, true);
}
/// The same, and a vector that ends each row of patches.
double two_layers_and_row_end(const ConfigObject& c, double vision, double text) {
  return two_layers(c, vision, text) + text;
}
double one_layer(const ConfigObject& c, double vision, double text) {
  const auto part = c.child("vision_config");
  const double out =
      part ? wide(part->size_or("projection_dim", c.size_or("projection_dim", 1))) : text;
  return linear(vision, out > 1 ? out : text, true);
}
/// A norm and a matrix (Gemma 3).
double norm_and_matrix(const ConfigObject&, double vision, double text) {
  return vision + vision * text;
}
/// A norm, patches of two by two as one, two linear layers (Mistral 3).
double merged_patches(const ConfigObject& c, double vision, double text) {
  const double merge = wide(c.size_or("spatial_merge_size", 2));
  const bool bias = c.flag_or("multimodal_projector_bias", false);
  return vision + linear(vision * merge * merge, vision, false) + linear(vision, text, bias) +
         linear(text, text, bias);
}
/// Patches of so many by so many as one, one linear layer (Idefics 3).
double shuffled_patches(const ConfigObject& c, double vision, double text) {
  const double scale = wide(c.size_or("scale_factor", 2));
  return linear(vision * scale * scale, text, false);
}
/// Two by two patches as one: a norm, two linear layers (InternVL).
double normed_patches(const ConfigObject&, double vision, double text) {
  return 2 * 4 * vision + linear(4 * vision, text, true) + linear(text, text, true);
}

/// Towers of Qwen's: patches of two frames, rotary positions, two by two patches merged into a
/// token.
struct QwenTower {
  bool second = false;  ///< root mean square norms, gated feed-forward (2.5)
  bool third = false;   ///< learned positions, mergers behind several layers (3)
};
double qwen_tower(const ConfigObject& vision, const QwenTower& kind, double text) {
  const auto size = [&](const char* key, std::int64_t usual) {
    return wide(vision.size_or(key, usual));
  };
  const bool first = !kind.second && !kind.third;
  const double width =
      first ? size("embed_dim", 1280) : size("hidden_size", kind.third ? 1152 : 1280);
  const double hidden = first ? width * vision.number_or("mlp_ratio", 4)
                              : size("intermediate_size", kind.third ? 4304 : 3420);
  const double patch = size("patch_size", kind.third ? 16 : 14),
               merge = size("spatial_merge_size", 2);
  const double norm = kind.second ? width : 2 * width;
  const double dense = kind.second ? 2 * linear(width, hidden, true) + linear(hidden, width, true)
                                   : linear(width, hidden, true) + linear(hidden, width, true);
  const double layer =
      2 * norm + linear(width, 3 * width, true) + linear(width, width, true) + dense;
  const double merged = merge * merge * width;
  const double out = first ? size("hidden_size", 1) : size("out_hidden_size", 1);
  const double merger = linear(merged, merged, true) + linear(merged, out > 1 ? out : text, true);
  double sum = size("in_channels", 3) * size("temporal_patch_size", 2) * patch * patch * width +
               size("depth", kind.third ? 27 : 32) * layer + norm + merger;
  if (kind.third) {
    sum += width + size("num_position_embeddings", 2304) * width;
    const double deep = vision.has("deepstack_visual_indexes")
                            ? static_cast<double>(vision.counts("deepstack_visual_indexes").size())
                            : 3;
    sum += deep * (2 * merged + merger);
  }
  return sum;
}

struct Part {
  std::string_view family, vision;  ///< `vision`: the tower's family where it states none
  double (*projector)(const ConfigObject& config, double vision, double text);
};
constexpr auto kParts = std::to_array<Part>({
    {"gemma3", "siglip_vision_model", norm_and_matrix},
    {"idefics3", "idefics3_vision", shuffled_patches},
    {"internvl", "internvl_vision", normed_patches},
    {"llava", "clip_vision_model", two_layers},
    {"llava_next", "clip_vision_model", two_layers_and_row_end},
    {"llava_onevision", "siglip_vision_model", two_layers_and_row_end},
    {"mistral3", "pixtral", merged_patches},
    {"paligemma", "siglip_vision_model", one_layer},
    {"smolvlm", "smolvlm_vision", shuffled_patches},
});

}  // namespace

double image_part_parameters(const ConfigObject& config, std::string_view family,
                             std::int64_t text_width) {
  const auto vision = config.child("vision_config");
  if (!vision) return 0;
  const double text = wide(text_width);
  if (family == "qwen2_vl") return qwen_tower(*vision, {}, text);
  if (family == "qwen2_5_vl") return qwen_tower(*vision, {.second = true}, text);
  if (family == "qwen3_vl" || family == "qwen3_vl_moe") {
    return qwen_tower(*vision, {.third = true}, text);
  }
  const auto part =
      std::find_if(kParts.begin(), kParts.end(), [&](const Part& p) { return p.family == family; });
  if (part == kParts.end()) return -1;
  const std::string tower = vision->text_or("model_type", part->vision);
  const auto rows = encoder_rows();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const EncoderFamily& r) { return r.model_type == tower; });
  if (row == rows.end()) return -1;
  const nlohmann::json defaults = nlohmann::json::parse(row->defaults);
  const ConfigObject whole = vision->with_defaults(defaults);
  const BuildOptions options;
  const NetworkGraph graph =
      row->build({.config = whole, .options = options, .family = row->model_type, .is_part = true});
  return static_cast<double>(graph.parameter_count()) +
         part->projector(config, wide(whole.size("hidden_size")), text);
}

}  // namespace tracecast::encoder
