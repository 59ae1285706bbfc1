#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "models/encoder/families.hpp"
#include "models/zoo/parts/attention.hpp"
#include "sim/base/error.hpp"

/// Encoders that see an image as a sequence of patches, and pairs of them with encoders of texts.
/// Sources: transformers, modeling_vit.py, _deit.py, _beit.py, _dinov2.py,
/// _dinov2_with_registers.py, _clip.py, _siglip.py, _idefics2.py, _idefics3.py, _pixtral.py,
/// _qwen2_vl.py, _qwen2_5_vl.py, _internvl.py.
namespace tracecast::encoder {
namespace {

enum class ImageHead {
  None,
  Pooler,      ///< first token, linear layer, tanh; a classifier instead where the class says so
  Classifier,  ///< of the first token beside the patches' mean, where the class says so
  Attention,   ///< one learned query attends to all patches (SigLIP)
};

/// What a family has beside ViT.
struct ImageTraits {
  std::string_view model_type;
  bool patch_bias = true;
  std::int64_t own_tokens = 1;  ///< learned ones before the patches: class, distillation
  bool mask_token = false;
  bool positions = true;
  bool first_norm = false;  ///< of the patches, before the first layer
  bool last_norm = true;
  bool key_bias = true;
  bool layer_scale = false;
  bool gated = false, biases = true, root_mean_square = false;
  Relative relative = Relative::None;
  ImageHead head = ImageHead::None;
  std::string_view activation = "gelu";
  bool classifies_with_mean = false;  ///< the first token beside the mean of all
  bool may_pool_mean = false;         ///< unless `use_mean_pooling` is off: the mean, normalized
};
constexpr auto kImageTraits = std::to_array<ImageTraits>({
    {.model_type = "beit",
     .mask_token = true,
     .positions = false,
     .key_bias = false,
     .layer_scale = true,
     .relative = Relative::LayerTable,
     .head = ImageHead::Classifier,
     .may_pool_mean = true},
    {.model_type = "clip_vision_model",
     .patch_bias = false,
     .first_norm = true,
     .activation = "quick_gelu"},
    {.model_type = "deit", .own_tokens = 2, .head = ImageHead::Pooler},
    {.model_type = "dinov2",
     .mask_token = true,
     .layer_scale = true,
     .head = ImageHead::Classifier,
     .classifies_with_mean = true},
    {.model_type = "dinov2_with_registers",
     .mask_token = true,
     .layer_scale = true,
     .head = ImageHead::Classifier,
     .classifies_with_mean = true},
    {.model_type = "idefics2_vision", .own_tokens = 0, .activation = "gelu_pytorch_tanh"},
    {.model_type = "idefics3_vision", .own_tokens = 0, .activation = "gelu_pytorch_tanh"},
    {.model_type = "internvl_vision", .layer_scale = true, .head = ImageHead::None},
    {.model_type = "intern_vit_6b", .last_norm = false, .layer_scale = true},
    {.model_type = "pixtral",
     .patch_bias = false,
     .own_tokens = 0,
     .positions = false,
     .first_norm = true,
     .last_norm = false,
     .gated = true,
     .biases = false,
     .root_mean_square = true,
     .relative = Relative::Rotary,
     .activation = "gelu"},
    {.model_type = "siglip_vision_model",
     .own_tokens = 0,
     .head = ImageHead::Attention,
     .activation = "gelu_pytorch_tanh"},
    {.model_type = "smolvlm_vision", .own_tokens = 0, .activation = "gelu_pytorch_tanh"},
    {.model_type = "vit", .head = ImageHead::Pooler},
    {.model_type = "vit_msn", .mask_token = true, .head = ImageHead::Classifier},
});

const ImageTraits& image_traits(const ConfigObject& config, std::string_view family) {
  const auto found = std::find_if(kImageTraits.begin(), kImageTraits.end(),
                                  [&](const ImageTraits& t) { return t.model_type == family; });
  if (found == kImageTraits.end()) {
    config.fail("model_type", "\"" + std::string(family) + "\"", "a known encoder of images");
  }
  return *found;
}

constexpr std::string_view kImageHidden[] = {"intermediate_size", "mlp_dim"};

/// A size that some files give for both sides.
std::int64_t side_in(const ConfigObject& c, std::string_view key, std::int64_t usual) {
  if (!c.is_list(key)) return c.size_or(key, usual);
  const std::vector<std::int64_t> sides = c.counts(key);
  if (sides.empty() || sides[0] < 1) c.fail(key, "no size", "a size from 1 on");
  return sides[0];
}

std::int64_t image_hidden(const ConfigObject& c, std::int64_t width) {
  if (c.has(c.first_of(kImageHidden))) return c.size(c.first_of(kImageHidden));
  const auto hidden = static_cast<std::int64_t>(
      std::llround(c.number_or("mlp_ratio", 4) * static_cast<double>(width)));
  // SwiGLU: two thirds, to the next multiple of 8 (Dinov2SwiGLUFFN).
  if (c.flag_or("use_swiglu_ffn", false)) return (hidden * 2 / 3 + 7) / 8 * 8;
  return hidden;
}

StackLayout image_layout(const ConfigObject& c, const ImageTraits& traits) {
  constexpr std::string_view kLayers[] = {"num_hidden_layers", "depth"};
  constexpr std::string_view kHeads[] = {"num_attention_heads", "num_heads"};
  const std::int64_t width = c.size("hidden_size");
  const bool swiglu = c.flag_or("use_swiglu_ffn", false);
  const bool input_bias = traits.biases && c.flag_or("qkv_bias", true);
  StackLayout layout{
      .layers = layers_of(c, c.first_of(kLayers)),
      .width = width,
      .heads = c.size(c.first_of(kHeads)),
      .hidden = image_hidden(c, width),
      .root_mean_square = traits.root_mean_square || c.text_or("norm_type", "") == "rms_norm",
      .query_bias = input_bias,
      .key_bias = input_bias && traits.key_bias,
      .value_bias = input_bias,
      .output_bias = traits.biases,
      .feed_forward_biases = traits.biases,
      .gated = traits.gated || swiglu,
      .activation = swiglu ? std::string("silu") : c.text_or("hidden_act", traits.activation),
      .layer_scale = traits.layer_scale,
      .last_norm = traits.last_norm,
      .relative = traits.relative};
  if (layout.width % layout.heads != 0) {
    c.fail("hidden_size", std::to_string(layout.width), "a multiple of the heads");
  }
  if (traits.relative == Relative::LayerTable) {
    layout.layer_scale = c.number_or("layer_scale_init_value", 0.1) > 0;
    if (c.flag_or("use_shared_relative_position_bias", false)) {
      layout.relative = Relative::SharedTable;
    } else if (!c.flag_or("use_relative_position_bias", false)) {
      layout.relative = Relative::None;
    }
  }
  return layout;
}

}  // namespace

TensorId patches(GraphBuilder& b, const std::string& name, TensorId images, std::int64_t width,
                 std::int64_t patch, bool bias) {
  constexpr std::array<std::int64_t, 3> kPatchesFirst{0, 2, 1};
  TensorId x =
      b.conv_layer(name + ".projection", images, width, Window::square(patch, patch), bias);
  x = b.reshape(name + ".flatten", x, {b.shape(x)[0], width, -1});
  return b.transpose(name + ".sequence", x, kPatchesFirst);
}

TensorId image_tower(const Run& run, const Question& q, const std::string& name) {
  const ConfigObject& c = q.config;
  GraphBuilder& b = run.b;
  const ImageTraits& traits = image_traits(c, q.family);
  StackLayout layout = image_layout(c, traits);
  const std::int64_t patch = side_in(c, "patch_size", 16), batch = q.options.batch;
  const std::int64_t usual = side_in(c, "image_size", 224);
  const std::int64_t side = side_of(q, usual, patch), width = layout.width;
  const TensorId images =
      b.input(name + "pixel_values", {batch, c.size_or("num_channels", 3), side, side});
  TensorId x = patches(b, name + "embeddings", images, width, patch, traits.patch_bias);
  const std::int64_t across = side / patch;
  if (traits.mask_token && c.flag_or("use_mask_token", q.family != "beit")) {
    // Patches that training hides are replaced by this vector.
    x = b.add(name + "embeddings.masked", x,
              b.weight(name + "embeddings.mask_token", {1, 1, width}));
  }
  std::int64_t own = traits.own_tokens;
  if (own > 0) {
    const TensorId token = learned_tokens(b, name + "embeddings.class_token", own, width);
    const TensorId both[] = {token, x};
    x = b.concat(name + "embeddings.with_tokens", both, 1);
  }
  if (traits.positions || c.flag_or("use_absolute_position_embeddings", false)) {
    // Of the file's own image size: the table is interpolated for others.
    const std::int64_t places = (usual / patch) * (usual / patch) + own;
    TensorId table = b.weight(name + "embeddings.positions", {1, places, width});
    if (places != b.shape(x)[1]) {
      table = b.resize(name + "embeddings.interpolated", table, {1, b.shape(x)[1], width}, "cubic");
    }
    x = b.add(name + "embeddings.add_positions", x, table);
  }
  if (const std::int64_t registers = c.count_or("num_register_tokens", 0); registers > 0) {
    const TensorId more[] = {x, learned_tokens(b, name + "embeddings.registers", registers, width)};
    x = b.concat(name + "embeddings.with_registers", more, 1);
  }
  if (layout.relative != Relative::None && layout.relative != Relative::Rotary) {
    layout.buckets = (2 * across - 1) * (2 * across - 1) + 3;
  }
  if (traits.may_pool_mean) layout.last_norm = !c.flag_or("use_mean_pooling", true);
  if (traits.first_norm) x = norm(run, layout, name + "pre_norm", x);
  x = run_stack(run, layout, name + "encoder.", x);
  const bool has_head = traits.head == ImageHead::Attention && c.flag_or("vision_use_head", true);
  if (!has_head || q.is_part) return x;
  const TensorId probe = learned_tokens(b, name + "head.probe", 1, width);
  x = attend_between(run, layout, name + "head.attention", probe, x);
  const TensorId y =
      feed_forward(run, layout, name + "head.mlp", norm(run, layout, name + "head.norm", x));
  return b.add(name + "head.add", x, y);
}

NetworkGraph image_encoder(const Question& q) {
  const ConfigObject& c = q.config;
  GraphBuilder b(std::string(q.family), q.options.batch);
  const Run run = run_of(b, q);
  const ImageTraits& traits = image_traits(c, q.family);
  TensorId x = image_tower(run, q, "");
  b.graph().outputs = {x};
  if (q.is_part) return std::move(b).take();
  constexpr std::array<std::int64_t, 1> kTokens{1};
  const bool classifies = is_for(q, "ForImageClassification") || is_for(q, "WithTeacher");
  if (traits.may_pool_mean && c.flag_or("use_mean_pooling", true)) {
    x = b.layer_norm_layer("pooler.norm", b.reduce("pooler.mean", x, kTokens, false, "mean"));
    b.graph().outputs = {x};
    if (classifies) b.graph().outputs = {b.linear_layer("classifier", x, labels_of(c), true)};
  } else if (classifies) {
    TensorId first = first_token(b, "head.first", x);
    if (traits.classifies_with_mean) {
      const TensorId both[] = {first, b.reduce("head.mean", x, kTokens, false, "mean")};
      first = b.concat("head.cat", both, -1);
    }
    b.graph().outputs = {b.linear_layer("classifier", first, labels_of(c), true)};
    if (is_for(q, "WithTeacher")) {
      b.graph().outputs.push_back(b.linear_layer(
          "distillation_classifier", first_token(b, "head.second", x), labels_of(c), true));
    }
  } else if (traits.head == ImageHead::Pooler) {
    b.graph().outputs = {pooled(b, "pooler", x)};
  }
  return std::move(b).take();
}

namespace {

/// The text's tower of CLIP (masked, positions of its own) and of SigLIP (not masked, a linear
/// layer behind it).
TensorId text_tower(const Run& run, const ConfigObject& c, const Question& q, bool is_siglip,
                    std::int64_t projection) {
  GraphBuilder& b = run.b;
  const StackLayout layout{
      .layers = layers_of(c, "num_hidden_layers"),
      .width = c.size("hidden_size"),
      .heads = c.size("num_attention_heads"),
      .hidden = c.size("intermediate_size"),
      .activation = c.text_or("hidden_act", is_siglip ? "gelu_pytorch_tanh" : "quick_gelu"),
      .causal = !is_siglip,
      .last_norm = true};
  const std::int64_t positions = c.size("max_position_embeddings");
  const std::int64_t tokens = std::min(positions, q.options.seq_len.value_or(positions));
  TensorId x = b.embedding_layer("text.embeddings.word",
                                 b.input("input_ids", {q.options.batch, tokens}, true),
                                 c.size("vocab_size"), layout.width);
  const TensorId ids = zoo_builders::integer_table(b, "text.position_ids", {1, tokens}, 8);
  x = b.add("text.embeddings.add_position", x,
            b.embedding_layer("text.embeddings.position", ids, positions, layout.width));
  x = run_stack(run, layout, "text.encoder.", x);
  x = first_token(b, "text.pooled", x);
  return b.linear_layer("text.projection", x, projection, is_siglip);
}

}  // namespace

NetworkGraph two_towers(const Question& q) {
  const bool is_siglip = q.family.starts_with("siglip");
  static const nlohmann::json kClipText = {
      {"vocab_size", 49408},     {"hidden_size", 512},       {"intermediate_size", 2048},
      {"num_hidden_layers", 12}, {"num_attention_heads", 8}, {"max_position_embeddings", 77}};
  static const nlohmann::json kClipImage = {{"hidden_size", 768},      {"intermediate_size", 3072},
                                            {"num_hidden_layers", 12}, {"num_attention_heads", 12},
                                            {"image_size", 224},       {"patch_size", 32}};
  static const nlohmann::json kSiglipText = {
      {"vocab_size", 32000},     {"hidden_size", 768},        {"intermediate_size", 3072},
      {"num_hidden_layers", 12}, {"num_attention_heads", 12}, {"max_position_embeddings", 64}};
  static const nlohmann::json kSiglipImage = {
      {"hidden_size", 768},        {"intermediate_size", 3072}, {"num_hidden_layers", 12},
      {"num_attention_heads", 12}, {"image_size", 224},         {"patch_size", 16}};
  static const nlohmann::json kNothing = nlohmann::json::object();
  const auto part = [&](const char* key, const nlohmann::json& defaults) {
    const auto found = q.config.child(key);
    return found ? found->with_defaults(defaults)
                 : ConfigObject(kNothing, q.config.place(key)).with_defaults(defaults);
  };
  GraphBuilder b(std::string(q.family), q.options.batch);
  const Run run = run_of(b, q);
  const ConfigObject vision = part("vision_config", is_siglip ? kSiglipImage : kClipImage);
  const ConfigObject text = part("text_config", is_siglip ? kSiglipText : kClipText);
  const std::int64_t projection = is_siglip
                                      ? text.size_or("projection_size", text.size("hidden_size"))
                                      : q.config.size_or("projection_dim", 512);
  TensorId images = image_tower(
      run, {vision, q.options, is_siglip ? "siglip_vision_model" : "clip_vision_model"}, "vision.");
  images = first_token(b, "vision.pooled", images);
  if (!is_siglip) images = b.linear_layer("vision.projection", images, projection, false);
  const TensorId texts = text_tower(run, text, q, is_siglip, projection);
  TensorId logits = b.matmul("similarity", texts, images, false, true);
  logits = b.mul("similarity.scale", logits, b.weight("logit_scale", {1}));
  if (is_siglip) logits = b.add("similarity.bias", logits, b.weight("logit_bias", {1}));
  b.graph().outputs = {logits};
  return std::move(b).take();
}

}  // namespace tracecast::encoder
