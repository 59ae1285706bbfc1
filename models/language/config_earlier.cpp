#include <fmt/format.h>

#include "models/language/config_object.hpp"

/// Decoders with layer norms and biases. Keys: transformers, configuration_bloom.py, _falcon.py, _gpt2.py, _gpt_neox.py, _opt.py,
/// _phi.py.
namespace tracecast::language {
namespace {

std::int64_t head_width(const ConfigObject& config, std::int64_t width, std::int64_t heads) {
  if (width % heads != 0) {
    config.fail("hidden_size", fmt::format("{} over {} heads", width, heads),
                "a multiple of the heads");
  }
  return width / heads;
}

void add_layers(const ConfigObject& config, LanguageNetwork& network, std::int64_t layers,
                const LanguageLayer& layer) {
  constexpr std::int64_t kMostLayers = 4096;
  if (layers > kMostLayers) {
    config.fail("num_hidden_layers", std::to_string(layers), "at most 4096");
  }
  for (std::int64_t i = 0; i < layers; ++i) add_layer(network, layer);
}

LanguageNetwork layer_norms(const ConfigObject& config, std::int64_t width,
                            std::string_view family) {
  return {.family = std::string(family),
          .width = width,
          .vocabulary = config.size("vocab_size"),
          .context = config.size_or("max_position_embeddings", 0),
          .norm = LanguageNorm::Layer,
          .norm_biases = true};
}

}  // namespace

LanguageNetwork read_bloom(const ConfigObject& config, std::string_view family) {
  const std::int64_t width = config.size_of_either("hidden_size", "n_embed");
  const std::int64_t heads = config.size_of_either("n_head", "num_attention_heads");
  LanguageNetwork network = layer_norms(config, width, family);
  network.context = config.size_or("seq_length", 0);
  network.tied = config.flag_or("tie_word_embeddings", true);
  network.positions = LanguagePositions::Alibi;
  network.embedding_norm = true;
  network.activation = LanguageActivation::GeluTanhInSteps;
  add_layers(
      config, network, config.size_of_either("n_layer", "num_hidden_layers"),
      {.mixer = GroupedQueryAttention{.heads = heads,
                                      .kv_heads = heads,
                                      .head_width = head_width(config, width, heads),
                                      .packed = true,
                                      .input_biases = true,
                                      .output_bias = true},
       .feed_forward = DenseFeedForward{.width = 4 * width, .gated = false, .biases = true}});
  return network;
}

LanguageNetwork read_falcon(const ConfigObject& config, std::string_view family) {
  const std::int64_t width = config.size("hidden_size");
  const std::int64_t heads = config.size_of_either("n_head", "num_attention_heads");
  const std::int64_t wide = head_width(config, width, heads);
  const bool is_new = config.flag_or("new_decoder_architecture", false);
  const bool is_parallel = is_new || config.flag_or("parallel_attn", true);
  const bool biases = config.flag_or("bias", false), alibi = config.flag_or("alibi", false);
  std::int64_t kv_heads = heads;
  if (is_new) {
    kv_heads = config.size_or("num_kv_heads", config.size_or("n_head_kv", heads));
  } else if (config.flag_or("multi_query", true)) {
    kv_heads = 1;
  }
  if (kv_heads > heads || heads % kv_heads != 0) {
    config.fail("num_kv_heads", std::to_string(kv_heads),
                fmt::format("a divisor of num_attention_heads, {}", heads));
  }
  LanguageNetwork network = layer_norms(config, width, family);
  network.tied = config.flag_or("tie_word_embeddings", true);
  network.positions = alibi ? LanguagePositions::Alibi : LanguagePositions::Rotary;
  network.activation = activation_of(config, "activation", "gelu");
  const std::int64_t norms = config.size_or("num_ln_in_parallel_attn", is_new ? 2 : 1);
  add_layers(
      config, network, config.size_of_either("n_layer", "num_hidden_layers"),
      {.mixer = GroupedQueryAttention{.heads = heads,
                                      .kv_heads = kv_heads,
                                      .head_width = wide,
                                      .rotary_width = alibi ? 0 : wide,
                                      .packed = true,
                                      .input_biases = biases,
                                      .output_bias = biases},
       .feed_forward = DenseFeedForward{.width = config.size_or("ffn_hidden_size", 4 * width),
                                        .gated = false,
                                        .biases = biases},
       .parallel = is_parallel,
       .shared_norm = is_parallel && norms == 1});
  return network;
}

LanguageNetwork read_gpt2(const ConfigObject& config, std::string_view family) {
  const std::int64_t width = config.size_of_either("n_embd", "hidden_size");
  const std::int64_t heads = config.size_of_either("n_head", "num_attention_heads");
  LanguageNetwork network = layer_norms(config, width, family);
  network.position_rows = network.context = config.size_of_either("n_positions", "n_ctx");
  network.positions = LanguagePositions::Learned;
  network.tied = config.flag_or("tie_word_embeddings", true);
  network.activation = activation_of(config, "activation_function", "gelu_new");
  add_layers(config, network, config.size_of_either("n_layer", "num_hidden_layers"),
             {.mixer = GroupedQueryAttention{.heads = heads,
                                             .kv_heads = heads,
                                             .head_width = head_width(config, width, heads),
                                             .packed = true,
                                             .input_biases = true,
                                             .output_bias = true},
              .feed_forward = DenseFeedForward{
                  .width = config.has("n_inner") ? config.size("n_inner") : 4 * width,
                  .gated = false,
                  .biases = true}});
  return network;
}

LanguageNetwork read_gpt_neox(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config);
  LanguageNetwork network = layer_norms(config, sizes.width, family);
  network.tied = config.flag_or("tie_word_embeddings", false);
  network.activation = activation_of(config, "hidden_act", "gelu");
  const bool biases = config.flag_or("attention_bias", true);
  const double turned = config.share_or("rotary_pct", 0.25);
  add_layers(config, network, sizes.layers,
             {.mixer = GroupedQueryAttention{.heads = sizes.heads,
                                             .kv_heads = sizes.heads,
                                             .head_width = sizes.head_width,
                                             .rotary_width = static_cast<std::int64_t>(
                                                 turned * static_cast<double>(sizes.head_width)),
                                             .packed = true,
                                             .input_biases = biases,
                                             .output_bias = biases},
              .feed_forward =
                  DenseFeedForward{
                      .width = config.size("intermediate_size"), .gated = false, .biases = true},
              .parallel = config.flag_or("use_parallel_residual", true)});
  return network;
}

LanguageNetwork read_opt(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config);
  LanguageNetwork network = layer_norms(config, sizes.width, family);
  network.tied = config.flag_or("tie_word_embeddings", true);
  network.positions = LanguagePositions::Learned;
  network.position_rows = config.size("max_position_embeddings") + 2;  // the class adds two rows
  network.embedding_width = config.size_or("word_embed_proj_dim", sizes.width);
  network.activation = activation_of(config, "activation_function", "relu");
  network.last_norm = config.flag_or("do_layer_norm_before", true) &&
                      !config.flag_or("_remove_final_layer_norm", false);
  if (!config.flag_or("do_layer_norm_before", true)) {
    config.fail("do_layer_norm_before", "false", "true: norms before attention and feed-forward");
  }
  if (network.embedding_width == sizes.width) network.embedding_width = 0;
  const bool biases = config.flag_or("enable_bias", true);
  add_layers(config, network, sizes.layers,
             {.mixer = GroupedQueryAttention{.heads = sizes.heads,
                                             .kv_heads = sizes.heads,
                                             .head_width = sizes.head_width,
                                             .input_biases = biases,
                                             .output_bias = biases},
              .feed_forward = DenseFeedForward{
                  .width = config.size("ffn_dim"), .gated = false, .biases = biases}});
  return network;
}

LanguageNetwork read_phi(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config);
  LanguageNetwork network = layer_norms(config, sizes.width, family);
  network.tied = config.flag_or("tie_word_embeddings", false);
  network.head_bias = true;
  network.activation = activation_of(config, "hidden_act", "gelu_new");
  const bool norms = config.flag_or("qk_layernorm", false);
  add_layers(
      config, network, sizes.layers,
      {.mixer = GroupedQueryAttention{.heads = sizes.heads,
                                      .kv_heads = sizes.kv_heads,
                                      .head_width = sizes.head_width,
                                      .rotary_width = rotary_width(config, sizes.head_width, 0.5),
                                      .input_biases = true,
                                      .output_bias = true,
                                      .head_norm = norms ? HeadNorm::PerHead : HeadNorm::None},
       .feed_forward =
           DenseFeedForward{
               .width = config.size("intermediate_size"), .gated = false, .biases = true},
       .parallel = true,
       .shared_norm = true});
  return network;
}

}  // namespace tracecast::language
