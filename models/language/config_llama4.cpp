#include <fmt/format.h>

#include "models/language/config_object.hpp"

/// Llama 4, whose layers differ in blocks, turned heads, norms and experts. Keys: transformers,
/// configuration_llama4.py.
namespace tracecast::language {
namespace {

void check_experts(const ConfigObject& config, std::string_view key, std::int64_t per_token,
                   std::int64_t experts) {
  if (per_token <= experts) return;
  config.fail(key, std::to_string(per_token), fmt::format("at most the {} experts", experts));
}

LanguageNetwork base(const ConfigObject& config, const CommonSizes& sizes,
                     std::string_view family) {
  return {.family = std::string(family),
          .width = sizes.width,
          .vocabulary = config.size("vocab_size"),
          .tied = config.flag_or("tie_word_embeddings", false),
          .context = config.size_or("max_position_embeddings", 0),
          .activation = activation_of(config, "hidden_act", "silu")};
}

}  // namespace

double llama4_encoder_parameters(const ConfigObject& vision, std::int64_t width) {
  const auto size = [&](const char* key) { return static_cast<double>(vision.size(key)); };
  const double w = size("hidden_size"), hidden = size("intermediate_size");
  const double patch = size("patch_size"), side = size("image_size") / patch;
  const double in = size("projector_input_dim"), out = size("projector_output_dim");
  const double layer = 4 * (w * w + w) + 2 * w * hidden + hidden + w + 4 * w;
  const double places = side * side + 1;
  return size("num_channels") * patch * patch * w + w + places * w + 4 * w +
         size("num_hidden_layers") * layer + hidden * in + in * out +
         size("vision_output_dim") * static_cast<double>(width);
}

LanguageNetwork read_llama4(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config);
  LanguageNetwork network = base(config, sizes, family);
  const bool biases = config.flag_or("attention_bias", false);
  const bool norms = config.flag_or("use_qk_norm", true);
  const ExpertFeedForward experts{.experts = config.size("num_local_experts"),
                                  .per_token = config.size("num_experts_per_tok"),
                                  .width = config.size("intermediate_size"),
                                  .shared_width = config.size("intermediate_size"),
                                  .sigmoid_scores = true};
  check_experts(config, "num_experts_per_tok", experts.per_token, experts.experts);
  const std::int64_t step = config.size_or("interleave_moe_layer_step", 1);
  const std::int64_t dense = config.size_or("intermediate_size_mlp", 0);
  const std::int64_t whole_every = config.size_or("no_rope_layer_interval", 4);
  std::vector<std::int64_t> rotary;  // 1 where a layer turns its heads
  if (config.has("no_rope_layers")) rotary = config.counts("no_rope_layers");
  if (!rotary.empty() && static_cast<std::int64_t>(rotary.size()) != sizes.layers) {
    config.fail("no_rope_layers", fmt::format("{} layers", rotary.size()),
                fmt::format("num_hidden_layers, {}", sizes.layers));
  }
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const bool turns = rotary.empty() ? (i + 1) % whole_every != 0 : rotary[i] != 0;
    LanguageLayer layer{
        .mixer =
            GroupedQueryAttention{.heads = sizes.heads,
                                  .kv_heads = sizes.kv_heads,
                                  .head_width = sizes.head_width,
                                  .rotary_width = turns ? sizes.head_width : 0,
                                  .window = turns ? config.count_or("attention_chunk_size", 0) : 0,
                                  .is_chunk = turns,
                                  .input_biases = biases,
                                  .output_bias = biases,
                                  .head_norm = norms && turns ? HeadNorm::PerHead : HeadNorm::None,
                                  .head_norm_learned = false},
        .feed_forward = experts};
    if ((i + 1) % step != 0) {
      layer.feed_forward = DenseFeedForward{.width = dense};
    }
    add_layer(network, layer);
  }
  return network;
}

}  // namespace tracecast::language
