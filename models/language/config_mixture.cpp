#include <fmt/format.h>

#include <algorithm>

#include "models/language/config_object.hpp"

/// Mixtures of experts. Keys: transformers, configuration_mixtral.py, _qwen2_moe.py, _qwen3_moe.py, _minimax_m2.py,
/// _llama4.py, _deepseek_v3.py, _glm_moe_dsa.py; DeepSeek's and Moonshot's own configuration_deepseek.py.
namespace tracecast::language {
namespace {

void check_experts(const ConfigObject& config, std::string_view key, std::int64_t per_token,
                   std::int64_t experts) {
  if (per_token <= experts) return;
  config.fail(key, std::to_string(per_token), fmt::format("at most the {} experts", experts));
}

bool contains(const std::vector<std::int64_t>& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
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

LanguageNetwork read_mixture(const ConfigObject& config, std::string_view family) {
  const bool is_mixtral = family == "mixtral", is_qwen2 = family == "qwen2_moe";
  const bool is_qwen3 = family == "qwen3_moe";
  const CommonSizes sizes = common_sizes(config, is_qwen3 ? 128 : 0);
  LanguageNetwork network = base(config, sizes, family);
  const bool biases = config.flag_or("attention_bias", false);
  const bool slides = is_mixtral || config.flag_or("use_sliding_window", false);
  const GroupedQueryAttention attention{
      .heads = sizes.heads,
      .kv_heads = sizes.kv_heads,
      .head_width = sizes.head_width,
      .rotary_width = sizes.head_width,
      .window = slides ? config.count_or("sliding_window", 0) : 0,
      .input_biases = biases || (is_qwen2 && config.flag_or("qkv_bias", true)),
      .output_bias = biases,
      .head_norm = is_qwen3 ? HeadNorm::PerHead : HeadNorm::None};
  const char* per_token = "num_experts_per_tok";
  const ExpertFeedForward experts{
      .experts = config.size(is_mixtral ? "num_local_experts" : "num_experts"),
      .per_token = config.size(per_token),
      .width = config.size(is_mixtral ? "intermediate_size" : "moe_intermediate_size"),
      .shared_width = is_qwen2 ? config.count_or("shared_expert_intermediate_size", 0) : 0,
      .shared_gate = is_qwen2,
      .loops = is_mixtral};
  check_experts(config, per_token, experts.per_token, experts.experts);
  const std::int64_t step = is_mixtral ? 1 : config.size_or("decoder_sparse_step", 1);
  std::vector<std::int64_t> dense;
  if (!is_mixtral && config.has("mlp_only_layers")) dense = config.counts("mlp_only_layers");
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    LanguageLayer layer{.mixer = attention, .feed_forward = experts};
    if (contains(dense, i) || (i + 1) % step != 0) {
      layer.feed_forward = DenseFeedForward{.width = config.size("intermediate_size")};
    }
    add_layer(network, layer);
  }
  return network;
}

LanguageNetwork read_minimax(const ConfigObject& config, std::string_view family) {
  const CommonSizes sizes = common_sizes(config);
  LanguageNetwork network = base(config, sizes, family);
  const std::int64_t rotary = config.size_or("rotary_dim", sizes.head_width);
  if (rotary > sizes.head_width) {
    config.fail("rotary_dim", std::to_string(rotary),
                fmt::format("at most head_dim, {}", sizes.head_width));
  }
  const GroupedQueryAttention attention{
      .heads = sizes.heads,
      .kv_heads = sizes.kv_heads,
      .head_width = sizes.head_width,
      .rotary_width = rotary,
      .head_norm = config.flag_or("use_qk_norm", true) ? HeadNorm::OverAllHeads : HeadNorm::None};
  const ExpertFeedForward experts{.experts = config.size("num_local_experts"),
                                  .per_token = config.size("num_experts_per_tok"),
                                  .width = config.size("intermediate_size"),
                                  .sigmoid_scores = true,
                                  .correction_bias = config.flag_or("use_routing_bias", true)};
  check_experts(config, "num_experts_per_tok", experts.per_token, experts.experts);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    add_layer(network, {.mixer = attention, .feed_forward = experts});
  }
  if (config.flag_or("use_mtp", true)) {
    network.prediction_layers =
        config.count_or("num_mtp_modules", 0) * config.count_or("mtp_transformer_layers", 1);
  }
  return network;
}

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
      layer.feed_forward = DenseFeedForward{.width = config.size("intermediate_size_mlp")};
    }
    add_layer(network, layer);
  }
  return network;
}

LanguageNetwork read_latent(const ConfigObject& config, std::string_view family) {
  CommonSizes sizes = common_sizes(config, 1);  // heads have widths of their own
  LanguageNetwork network = base(config, sizes, family);
  LatentAttention attention{.heads = sizes.heads,
                            .query_rank = config.count_or("q_lora_rank", 0),
                            .kv_rank = config.size("kv_lora_rank"),
                            .nope_width = config.size("qk_nope_head_dim"),
                            .rope_width = config.size("qk_rope_head_dim"),
                            .value_width = config.size("v_head_dim"),
                            .biases = config.flag_or("attention_bias", false)};
  if (config.has("index_topk")) {
    attention.indexer = SparseIndexer{.heads = config.size("index_n_heads"),
                                      .head_width = config.size("index_head_dim"),
                                      .top_keys = config.size("index_topk")};
  }
  const std::int64_t width = config.size_or("moe_intermediate_size", 1);
  std::optional<ExpertFeedForward> experts;
  if (config.has("n_routed_experts")) {
    experts = ExpertFeedForward{
        .experts = config.size("n_routed_experts"),
        .per_token = config.size("num_experts_per_tok"),
        .width = config.size("moe_intermediate_size"),
        .shared_width = config.count_or("n_shared_experts", 0) * width,
        .sigmoid_scores = config.text_or("scoring_func", "sigmoid") == "sigmoid",
        .correction_bias = config.text_or("topk_method", "noaux_tc") == "noaux_tc"};
    check_experts(config, "num_experts_per_tok", experts->per_token, experts->experts);
  }
  const std::int64_t dense = config.count_or("first_k_dense_replace", 0);
  if (dense > sizes.layers) {
    config.fail("first_k_dense_replace", std::to_string(dense),
                fmt::format("at most num_hidden_layers, {}", sizes.layers));
  }
  const std::int64_t every = config.size_or("moe_layer_freq", 1);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    LanguageLayer layer{.mixer = attention};
    if (experts && i >= dense && i % every == 0) {
      layer.feed_forward = *experts;
    } else {
      layer.feed_forward = DenseFeedForward{.width = config.size("intermediate_size")};
    }
    add_layer(network, layer);
  }
  network.prediction_layers = config.count_or("num_nextn_predict_layers", 0);
  network.prediction_kind = network.order.back();
  return network;
}

}  // namespace tracecast::language
