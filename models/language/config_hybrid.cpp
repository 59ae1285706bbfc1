#include <fmt/format.h>

#include "models/language/config_object.hpp"

/// Layers that a file lists one by one. Keys: transformers, configuration_qwen3_next.py,
/// _qwen3_5.py, _qwen3_5_moe.py, _nemotron_h.py; NVIDIA's configuration_decilm.py and
/// block_config.py.
namespace tracecast::language {
namespace {

/// Whether each layer is attention over everything.
std::vector<bool> full_layers(const ConfigObject& config, std::int64_t layers) {
  std::vector<bool> full(static_cast<std::size_t>(layers));
  if (!config.has("layer_types")) {
    const std::int64_t every = config.size_or("full_attention_interval", 4);
    for (std::size_t i = 0; i < full.size(); ++i) {
      full[i] = (static_cast<std::int64_t>(i) + 1) % every == 0;
    }
    return full;
  }
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != full.size()) {
    config.fail("layer_types", fmt::format("{} layers", types.size()),
                fmt::format("num_hidden_layers, {}", layers));
  }
  for (std::size_t i = 0; i < full.size(); ++i) {
    full[i] = types[i] == "full_attention";
    if (!full[i] && types[i] != "linear_attention") {
      config.fail("layer_types", "\"" + types[i].substr(0, 40) + "\"",
                  "full_attention or linear_attention");
    }
  }
  return full;
}

LanguageFeedForward feed_forward_of(const ConfigObject& config) {
  (void)config.first_of(keys::kFeedForward);
  if (!config.has("num_experts") || config.count_or("num_experts", 0) == 0) {
    return DenseFeedForward{.width = config.size("intermediate_size")};
  }
  const ExpertFeedForward experts{
      .experts = config.size("num_experts"),
      .per_token = config.size("num_experts_per_tok"),
      .width = config.size("moe_intermediate_size"),
      .shared_width = config.count_or("shared_expert_intermediate_size", 0),
      .shared_gate = config.count_or("shared_expert_intermediate_size", 0) > 0};
  if (experts.per_token > experts.experts) {
    config.fail("num_experts_per_tok", std::to_string(experts.per_token),
                fmt::format("at most the {} experts", experts.experts));
  }
  return experts;
}

}  // namespace

LanguageNetwork read_delta_hybrid(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config, 256);
  LanguageNetwork network{.family = std::string(family),
                          .width = sizes.width,
                          .vocabulary = config.size("vocab_size"),
                          .tied = config.flag_or("tie_word_embeddings", false),
                          .context = config.size_or("max_position_embeddings", 0),
                          .activation = activation_of(config, "hidden_act", "silu")};
  const GroupedQueryAttention attention{
      .heads = sizes.heads,
      .kv_heads = sizes.kv_heads,
      .head_width = sizes.head_width,
      .rotary_width = rotary_width(config, sizes.head_width, 0.25),
      .input_biases = config.flag_or("attention_bias", false),
      .output_bias = config.flag_or("attention_bias", false),
      .head_norm = HeadNorm::PerHead,
      .output_gate = config.flag_or("attn_output_gate", true)};
  const GatedDeltaNet delta{.key_heads = config.size("linear_num_key_heads"),
                            .value_heads = config.size("linear_num_value_heads"),
                            .key_width = config.size("linear_key_head_dim"),
                            .value_width = config.size("linear_value_head_dim"),
                            .convolution = config.size_or("linear_conv_kernel_dim", 4)};
  if (delta.value_heads % delta.key_heads != 0) {
    config.fail("linear_num_value_heads", std::to_string(delta.value_heads),
                fmt::format("a multiple of linear_num_key_heads, {}", delta.key_heads));
  }
  const LanguageFeedForward feed_forward = feed_forward_of(config);
  const LanguageLayer whole{.mixer = attention, .feed_forward = feed_forward};
  for (const bool is_full : full_layers(config, sizes.layers)) {
    add_layer(network,
              is_full ? whole : LanguageLayer{.mixer = delta, .feed_forward = feed_forward});
  }
  network.prediction_layers = config.count_or("mtp_num_hidden_layers", 0);
  if (network.prediction_layers > 0) {
    add_layer(network, whole);  // prediction layers attend to everything
    network.prediction_kind = network.order.back();
    network.order.pop_back();
  }
  return network;
}

LanguageNetwork read_nemotron_h(const ConfigObject& config, std::string_view family) {
  const std::int64_t width = config.size("hidden_size"), layers = config.size("num_hidden_layers");
  if (layers > kMostLayers) {
    config.fail("num_hidden_layers", std::to_string(layers), "at most 4096");
  }
  const std::string pattern = config.text("hybrid_override_pattern");
  if (static_cast<std::int64_t>(pattern.size()) != layers) {
    config.fail("hybrid_override_pattern", fmt::format("{} layers", pattern.size()),
                fmt::format("num_hidden_layers, {}", layers));
  }
  LanguageNetwork network{.family = std::string(family),
                          .width = width,
                          .vocabulary = config.size("vocab_size"),
                          .tied = config.flag_or("tie_word_embeddings", false),
                          .positions = LanguagePositions::None,
                          .context = config.size_or("max_position_embeddings", 0),
                          .activation = activation_of(config, "mlp_hidden_act", "relu2")};
  const bool attention_biases = config.flag_or("attention_bias", false);
  const bool mlp_biases = config.flag_or("mlp_bias", false);
  for (const char kind : pattern) {
    LanguageLayer layer;
    switch (kind) {
      case 'M':
        layer.mixer = Mamba2{.heads = config.size("mamba_num_heads"),
                             .head_width = config.size("mamba_head_dim"),
                             .groups = config.size("n_groups"),
                             .state = config.size("ssm_state_size"),
                             .convolution = config.size_or("conv_kernel", 4),
                             .chunk = config.size_or("chunk_size", 256),
                             .biases = config.flag_or("use_bias", false),
                             .convolution_bias = config.flag_or("use_conv_bias", true)};
        break;
      case '*':
        layer.mixer =
            GroupedQueryAttention{.heads = config.size("num_attention_heads"),
                                  .kv_heads = config.size("num_key_value_heads"),
                                  .head_width = config.size(config.first_of(keys::kHeadWidth)),
                                  .input_biases = attention_biases,
                                  .output_bias = attention_biases};
        break;
      case '-':
        layer.feed_forward = DenseFeedForward{
            .width = config.size("intermediate_size"), .gated = false, .biases = mlp_biases};
        break;
      case 'E':
        layer.feed_forward = ExpertFeedForward{
            .experts = config.size("n_routed_experts"),
            .per_token = config.size("num_experts_per_tok"),
            .width = config.size("moe_intermediate_size"),
            .shared_width = config.count_or("moe_shared_expert_intermediate_size", 0),
            .gated = false,
            .sigmoid_scores = true,
            .correction_bias = true};
        break;
      default:
        config.fail("hybrid_override_pattern", fmt::format("layer '{}'", kind),
                    "M (Mamba 2), * (attention), - (feed-forward) or E (experts)");
    }
    add_layer(network, layer);
  }
  return network;
}

namespace {

/// NVIDIA, modeling_decilm.py: to the next multiple of 256 of two thirds of the multiple of the
/// width.
std::int64_t searched_width(double multiple, std::int64_t width) {
  constexpr std::int64_t kUnit = 256;
  const auto exact = static_cast<std::int64_t>(2 * multiple * static_cast<double>(width) / 3);
  return (exact + kUnit - 1) / kUnit * kUnit;
}

}  // namespace

LanguageNetwork read_nemotron_nas(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config);
  LanguageNetwork network{.family = std::string(family),
                          .width = sizes.width,
                          .vocabulary = config.size("vocab_size"),
                          .tied = config.flag_or("tie_word_embeddings", false),
                          .context = config.size_or("max_position_embeddings", 0),
                          .activation = activation_of(config, "hidden_act", "silu")};
  const std::vector<ConfigObject> blocks = config.children("block_configs");
  if (static_cast<std::int64_t>(blocks.size()) != sizes.layers) {
    config.fail("block_configs", fmt::format("{} layers", blocks.size()),
                fmt::format("num_hidden_layers, {}", sizes.layers));
  }
  for (const ConfigObject& block : blocks) {
    LanguageLayer layer;
    const bool biases = config.flag_or("attention_bias", false);
    if (!block.flag_or("attention.no_op", false) &&
        !block.flag_or("attention.replace_with_linear", false)) {
      const std::int64_t together = block.size_or("attention.n_heads_in_group", 1);
      if (sizes.heads % together != 0) {
        block.fail("attention.n_heads_in_group", std::to_string(together),
                   fmt::format("a divisor of num_attention_heads, {}", sizes.heads));
      }
      layer.mixer = GroupedQueryAttention{.heads = sizes.heads,
                                          .kv_heads = sizes.heads / together,
                                          .head_width = sizes.head_width,
                                          .rotary_width = sizes.head_width,
                                          .input_biases = biases,
                                          .output_bias = biases};
    }
    if (!block.flag_or("ffn.no_op", false) && !block.flag_or("ffn.replace_with_linear", false)) {
      layer.feed_forward = DenseFeedForward{
          .width = searched_width(block.number_or("ffn.ffn_mult", 1), sizes.width)};
    }
    if (layer.mixer.index() + layer.feed_forward.index() > 0) add_layer(network, layer);
  }
  if (network.order.empty()) config.fail("block_configs", "no layer", "attention or feed-forwards");
  return network;
}

}  // namespace tracecast::language
