#include <fmt/format.h>

#include <algorithm>

#include "models/language/config_object.hpp"

/// Llama and what was built like it. Keys: transformers, configuration_llama.py, _mistral.py, _qwen2.py, _qwen3.py,
/// _phi3.py, _gemma.py, _gemma2.py, _gemma3.py; Qwen's own configuration_qwen.py; InternLM's configuration_internlm.py.
namespace tracecast::language {
namespace {

LanguageNetwork root_mean_square(const ConfigObject& config, const CommonSizes& sizes,
                                 std::string_view family) {
  return {.family = std::string(family),
          .width = sizes.width,
          .vocabulary = config.size("vocab_size"),
          .tied = config.flag_or("tie_word_embeddings", false),
          .context = config.size_or("max_position_embeddings", 0),
          .activation = activation_of(config, "hidden_act", "silu")};
}

/// Which layers see a window, by layer_types; without that list `usual(i)`.
template <class Usual>
std::vector<bool> windowed_layers(const ConfigObject& config, std::int64_t layers, Usual usual) {
  std::vector<bool> result(static_cast<std::size_t>(layers));
  if (!config.has("layer_types")) {
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = usual(i);
    return result;
  }
  const std::vector<std::string> types = config.texts("layer_types");
  if (types.size() != result.size()) {
    config.fail("layer_types", fmt::format("{} layers", types.size()),
                fmt::format("num_hidden_layers, {}", layers));
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention") {
      config.fail("layer_types", "\"" + types[i].substr(0, 40) + "\"",
                  "full_attention or sliding_attention");
    }
    result[i] = types[i] == "sliding_attention";
  }
  return result;
}

/// sliding_window counts: Mistral's and Phi-3's for every layer, Qwen's where use_sliding_window says so.
std::int64_t window_of_all(const ConfigObject& config, std::string_view family) {
  const bool asks = family.starts_with("qwen");
  if (asks && !config.flag_or("use_sliding_window", false)) return 0;
  return config.count_or("sliding_window", 0);
}

}  // namespace

LanguageNetwork read_dense(const ConfigObject& config, std::string_view family) {
  const bool is_qwen2 = family == "qwen2", is_qwen3 = family == "qwen3";
  const CommonSizes sizes = common_sizes(config, is_qwen3 ? 128 : 0);
  LanguageNetwork network = root_mean_square(config, sizes, family);
  const bool all_biases = config.flag_or("attention_bias", false) ||
                          (family == "internlm" && config.flag_or("bias", true));
  GroupedQueryAttention attention{.heads = sizes.heads,
                                  .kv_heads = sizes.kv_heads,
                                  .head_width = sizes.head_width,
                                  .rotary_width = rotary_width(config, sizes.head_width),
                                  .packed = family == "phi3",
                                  .input_biases = all_biases || is_qwen2,
                                  .output_bias = all_biases,
                                  .head_norm = is_qwen3 ? HeadNorm::PerHead : HeadNorm::None};
  const DenseFeedForward feed_forward{.width = config.size("intermediate_size"),
                                      .biases = config.flag_or("mlp_bias", false)};
  const std::int64_t window = window_of_all(config, family);
  // Qwen's first max_window_layers see everything.
  const std::int64_t whole =
      family.starts_with("qwen") ? config.count_or("max_window_layers", sizes.layers) : 0;
  const std::vector<bool> windowed = windowed_layers(config, sizes.layers, [&](std::size_t i) {
    return window > 0 && static_cast<std::int64_t>(i) >= whole;
  });
  for (const bool sees_window : windowed) {
    attention.window = sees_window ? window : 0;
    add_layer(network, {.mixer = attention, .feed_forward = feed_forward});
  }
  return network;
}

LanguageNetwork read_gemma(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config, 256);
  LanguageNetwork network = root_mean_square(config, sizes, family);
  network.tied = config.flag_or("tie_word_embeddings", true);
  network.activation =
      activation_of(config, config.has("hidden_activation") ? "hidden_activation" : "hidden_act",
                    "gelu_pytorch_tanh");
  if (network.activation == LanguageActivation::Gelu) {
    network.activation = LanguageActivation::GeluTanh;  // the class takes both names for it
  }
  const bool is_first = family == "gemma", is_third = family == "gemma3_text";
  GroupedQueryAttention attention{.heads = sizes.heads,
                                  .kv_heads = sizes.kv_heads,
                                  .head_width = sizes.head_width,
                                  .rotary_width = sizes.head_width,
                                  .input_biases = config.flag_or("attention_bias", false),
                                  .output_bias = config.flag_or("attention_bias", false),
                                  .head_norm = is_third ? HeadNorm::PerHead : HeadNorm::None};
  const DenseFeedForward feed_forward{.width = config.size("intermediate_size")};
  const std::int64_t window = is_first ? 0 : config.count_or("sliding_window", 4096);
  // One layer in `pattern` sees everything: the last of each group.
  const std::int64_t pattern = config.size_or("sliding_window_pattern", is_third ? 6 : 2);
  const std::vector<bool> windowed = windowed_layers(config, sizes.layers, [&](std::size_t i) {
    return window > 0 && (static_cast<std::int64_t>(i) + 1) % pattern != 0;
  });
  for (const bool sees_window : windowed) {
    attention.window = sees_window ? window : 0;
    add_layer(network,
              {.mixer = attention, .feed_forward = feed_forward, .norms_after = !is_first});
  }
  return network;
}

LanguageNetwork read_qwen1(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config, config.count_or("kv_channels", 0));
  LanguageNetwork network = root_mean_square(config, sizes, family);
  network.context = config.size_or("seq_length", network.context);
  const bool biases = !config.flag_or("no_bias", true);
  const std::int64_t both = config.size("intermediate_size");  // of gate and up together
  if (both % 2 != 0) config.fail("intermediate_size", std::to_string(both), "an even number");
  const GroupedQueryAttention attention{.heads = sizes.heads,
                                        .kv_heads = sizes.heads,
                                        .head_width = sizes.head_width,
                                        .rotary_width = sizes.head_width,
                                        .packed = true,
                                        .input_biases = true,
                                        .output_bias = biases};
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    add_layer(network, {.mixer = attention,
                        .feed_forward = DenseFeedForward{.width = both / 2, .biases = biases}});
  }
  return network;
}

LanguageNetwork read_gpt_oss(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config, 64);
  LanguageNetwork network = root_mean_square(config, sizes, family);
  const bool biases = config.flag_or("attention_bias", true);
  GroupedQueryAttention attention{.heads = sizes.heads,
                                  .kv_heads = sizes.kv_heads,
                                  .head_width = sizes.head_width,
                                  .rotary_width = sizes.head_width,
                                  .input_biases = biases,
                                  .output_bias = biases,
                                  .sinks = true};
  const std::int64_t experts = config.size("num_local_experts");
  const ExpertFeedForward feed_forward{
      .experts = experts,
      .per_token = config.size_of_either("num_experts_per_tok", "experts_per_token"),
      .width = config.size("intermediate_size"),
      .biases = true,
      .clamped = true};
  const std::int64_t window = config.size_or("sliding_window", 128);
  const std::vector<bool> windowed =
      windowed_layers(config, sizes.layers, [](std::size_t i) { return i % 2 == 0; });
  for (const bool sees_window : windowed) {
    attention.window = sees_window ? window : 0;
    add_layer(network, {.mixer = attention, .feed_forward = feed_forward});
  }
  return network;
}

}  // namespace tracecast::language
