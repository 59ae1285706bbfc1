#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "models/language/families.hpp"

/// Decoders by the rows of families.hpp.
namespace tracecast::language {
namespace {

/// Which layers see a window, by layer_types; without that list by the row.
std::vector<bool> windowed_layers(const ConfigObject& config, const DecoderFamily& family,
                                  std::int64_t layers, std::int64_t window) {
  std::vector<bool> result(static_cast<std::size_t>(layers));
  if (config.has("layer_types")) {
    const std::vector<std::string> types = config.texts("layer_types");
    if (types.size() != result.size()) {
      config.fail("layer_types", fmt::format("{} layers", types.size()),
                  fmt::format("num_hidden_layers, {}", layers));
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      // What is no attention is the row's own rule.
      const bool is_other = family.adjust_layer != nullptr;
      if (types[i] != "sliding_attention" && types[i] != "full_attention" && !is_other) {
        config.fail("layer_types", "\"" + types[i].substr(0, 40) + "\"",
                    "full_attention or sliding_attention");
      }
      result[i] = types[i] == "sliding_attention";
    }
    return result;
  }
  if (window == 0) return result;
  std::int64_t every = family.whole_every;
  const char* pattern = "sliding_window_pattern";
  if (config.is_text(pattern)) {
    every = static_cast<std::int64_t>(config.text(pattern).size());  // "LLLG"
  } else {
    every = config.count_or(pattern, every);
  }
  const std::int64_t whole = family.first_whole ? config.count_or("max_window_layers", layers) : 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool is_whole = every > 0 && layer % every == (family.whole_first ? 0 : every - 1);
    result[i] = !is_whole && layer >= whole;
  }
  return result;
}

/// Which layers turn their heads: a list of 1 and 0, or all but every so many-th.
std::vector<bool> turned_layers(const ConfigObject& config, const DecoderFamily& family,
                                std::int64_t layers) {
  std::vector<bool> result(static_cast<std::size_t>(layers), true);
  const std::int64_t every = config.count_or("no_rope_layer_interval", family.unturned_every);
  if (family.unturned_every == 0) return result;
  std::vector<std::int64_t> list;
  if (config.has("no_rope_layers")) list = config.counts("no_rope_layers");
  if (!list.empty() && list.size() != result.size()) {
    config.fail("no_rope_layers", fmt::format("{} layers", list.size()),
                fmt::format("num_hidden_layers, {}", layers));
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto next = static_cast<std::int64_t>(i) + 1;
    result[i] = list.empty() ? every == 0 || next % every != 0 : list[i] != 0;
  }
  return result;
}

/// Which layers have experts, by the rules of all families' classes: their keys do not contradict
/// each other.
class ExpertLayers {
 public:
  ExpertLayers(const ConfigObject& config, std::int64_t layers)
      : frequency_(config.size_or("moe_layer_frequency", 1)),
        first_(config.count_or(
            "first_k_dense_replace",
            config.count_or("moe_layer_start_index", config.count_or("moe_layer_num_skipped", 0)))),
        last_(layers - 1),
        step_(config.size_or("decoder_sparse_step", config.size_or("moe_layer_interval", 1))),
        period_(config.size_or("expert_layer_period", 1)),
        offset_(config.count_or("expert_layer_offset", 0)) {
    if (config.has("first_k_dense_replace") && first_ > layers) {
      config.fail("first_k_dense_replace", std::to_string(first_),
                  fmt::format("at most num_hidden_layers, {}", layers));
    }
    if (!config.is_negative("moe_layer_end_index")) {
      last_ = config.count_or("moe_layer_end_index", last_);
    }
    if (config.is_list("moe_layer_freq")) {
      listed_ = config.counts("moe_layer_freq");
    } else {
      every_ = config.size_or("moe_layer_freq", 1);
    }
    if (config.has("mlp_only_layers")) dense_ = config.counts("mlp_only_layers");
  }
  [[nodiscard]] bool has(std::int64_t i) const {
    if (static_cast<std::size_t>(i) < listed_.size()) {
      return listed_[static_cast<std::size_t>(i)] != 0;
    }
    if (std::find(dense_.begin(), dense_.end(), i) != dense_.end()) return false;
    return i >= first_ && i <= last_ && (i + 1) % step_ == 0 && (i + 1) % frequency_ == 0 &&
           i % every_ == 0 && i % period_ == offset_ % period_;
  }

 private:
  std::int64_t frequency_, first_, last_, step_, every_ = 1, period_, offset_;
  std::vector<std::int64_t> dense_, listed_;
};

/// The experts of layer `index`; nothing where the file states none.
std::optional<ExpertFeedForward> experts_of(const ConfigObject& config, const DecoderFamily& family,
                                            std::int64_t width, std::int64_t index,
                                            std::int64_t layers) {
  const std::string_view count = config.first_of(keys::kExperts);
  const ExpertTraits& traits = *family.experts;
  const bool has = config.is_list(count) || config.count_or(count, 0) > 0;
  if (!has || !traits.present.of(config)) return std::nullopt;
  const std::string_view per_token = config.first_of(keys::kExpertsPerToken);
  const std::string_view wide = config.first_of(keys::kExpertWidth);
  ExpertFeedForward experts{.experts = config.size_of_layer(count, index, layers),
                            .per_token = config.size_of_layer(per_token, index, layers),
                            .width = config.size_of_layer(wide, index, layers),
                            .gated = family.gated,
                            .biases = traits.biases,
                            .clamped = traits.clamped,
                            .sigmoid_scores = traits.sigmoid_scores.of(config),
                            .correction_bias = traits.correction_bias.of(config),
                            .loops = traits.loops};
  if (traits.scores_by_key) {
    experts.sigmoid_scores = config.text_or("scoring_func", "sigmoid") == "sigmoid";
    experts.correction_bias = config.text_or("topk_method", "noaux_tc") == "noaux_tc";
  }
  if (experts.per_token > experts.experts) {
    config.fail(per_token, std::to_string(experts.per_token),
                fmt::format("at most the {} experts", experts.experts));
  }
  const std::string_view shared_width = config.first_of(keys::kSharedWidth);
  const std::string_view shared = config.first_of(keys::kShared);
  if (traits.beside_dense) {
    experts.shared_width = config.size(config.first_of(keys::kFeedForward));
  } else if (traits.residual) {
    experts.shared_width = config.flag_or("use_residual", true) ? width : 0;
  } else if (config.has(shared_width)) {
    experts.shared_width = config.count_or(shared_width, 0);
  } else if (config.is_list(shared)) {
    experts.shared_width = config.size_of_layer(shared, index, layers) * experts.width;
  } else {
    experts.shared_width = config.count_or(shared, 0) * experts.width;
  }
  experts.shared_gate = traits.shared_gate && experts.shared_width > 0;
  return experts;
}

LatentAttention latent_of(const ConfigObject& config, std::int64_t heads) {
  LatentAttention attention{.heads = heads,
                            .query_rank = config.count_or("q_lora_rank", 0),
                            .kv_rank = config.size("kv_lora_rank"),
                            .nope_width = config.size("qk_nope_head_dim"),
                            .rope_width = config.size("qk_rope_head_dim"),
                            .value_width = config.has("v_head_dim")
                                               ? config.size("v_head_dim")
                                               : config.size(config.first_of(keys::kWidth)) / heads,
                            .biases = config.flag_or("attention_bias", false)};
  if (config.has("index_topk")) {
    attention.indexer = SparseIndexer{.heads = config.size("index_n_heads"),
                                      .head_width = config.size("index_head_dim"),
                                      .top_keys = config.size("index_topk")};
  }
  return attention;
}

CommonSizes sizes_of(const ConfigObject& config, const DecoderFamily& family) {
  if (family.has_attention) return common_sizes(config, family.latent ? 1 : family.head_width);
  return {.width = config.size(config.first_of(keys::kWidth)),
          .layers = config.size(config.first_of(keys::kLayers))};
}

std::int64_t rotary_of(const ConfigObject& config, const DecoderFamily& family,
                       std::int64_t head_width) {
  if (family.positions != LanguagePositions::Rotary || family.alibi.of(config)) return 0;
  if (family.rotary_channels > 0 && !config.has("rotary_dim")) {
    return std::min(family.rotary_channels, head_width);
  }
  return rotary_width(config, head_width, family.rotary_share);
}

/// The network without its layers, and what they have alike.
Decoder described(const ConfigObject& config, const DecoderFamily& family,
                  const CommonSizes& sizes) {
  const HeadNorm head_norm = family.has_head_norm.of(config) ? family.head_norm : HeadNorm::None;
  const bool parallel = family.parallel.of(config);
  Decoder result{.network = {.family = std::string(family.model_type),
                             .width = sizes.width,
                             .vocabulary = config.size(config.first_of(keys::kVocabulary)),
                             .tied = family.tied.of(config),
                             .head_bias = family.head_bias.of(config),
                             .positions = family.alibi.of(config) ? LanguagePositions::Alibi
                                                                  : family.positions,
                             .context = config.size_or(config.first_of(keys::kContext), 0),
                             .norm = family.norm,
                             .norm_biases = family.norm_biases.of(config),
                             .norm_learned = family.norm_learned,
                             .embedding_norm = family.embedding_norm,
                             .last_norm = family.last_norm.of(config),
                             .activation = activation_of(config, config.first_of(keys::kActivation),
                                                         family.activation)},
                 .attention = {.heads = sizes.heads,
                               .kv_heads = sizes.kv_heads,
                               .head_width = sizes.head_width,
                               .rotary_width = rotary_of(config, family, sizes.head_width),
                               .packed = family.packed && head_norm == HeadNorm::None,
                               .input_biases = family.input_biases.of(config),
                               .output_bias = family.output_bias.of(config),
                               .head_norm = head_norm,
                               .sinks = family.sinks},
                 .layer = {.parallel = parallel,
                           .shared_norm = parallel && family.shared_norm.of(config),
                           .norms_after = family.norm_place != NormPlace::Before,
                           .norms_before = family.norm_place == NormPlace::Before ||
                                           family.norm_place == NormPlace::BeforeAndAfter}};
  if (!family.grouped.of(config)) result.attention.kv_heads = sizes.heads;
  if (family.one_kv_head.of(config)) result.attention.kv_heads = 1;
  if (result.network.positions == LanguagePositions::Learned) {
    result.network.position_rows =
        config.size(config.first_of(keys::kContext)) + family.extra_positions;
  }
  return result;
}

std::int64_t dense_width(const ConfigObject& config, const DecoderFamily& family,
                         std::int64_t width, std::int64_t index, std::int64_t layers) {
  const std::string_view key = config.first_of(keys::kFeedForward);
  if (family.feed_forward_multiple > 0 && !config.has(key)) {
    return config.size_or("expansion_ratio", family.feed_forward_multiple) * width;
  }
  const std::int64_t wide = config.size_of_layer(key, index, layers);
  if (!family.halves_feed_forward) return wide;
  if (wide % 2 != 0) config.fail(key, std::to_string(wide), "an even number");
  return wide / 2;
}

}  // namespace

LanguageNetwork read_decoder(const ConfigObject& config, const DecoderFamily& family) {
  const CommonSizes sizes = sizes_of(config, family);
  if (sizes.layers > kMostLayers) {
    config.fail(config.first_of(keys::kLayers), std::to_string(sizes.layers), "at most 4096");
  }
  Decoder decoder = described(config, family, sizes);
  (void)config.first_of(keys::kFeedForward);  // stated, and unused, where all layers have experts
  if (family.adjust != nullptr) family.adjust(config, decoder);
  LanguageNetwork& network = decoder.network;
  const std::string_view window_key = config.first_of(keys::kWindow);
  const bool sees_windows = family.windowed.of(config);
  const std::int64_t window = sees_windows ? config.count_or(window_key, family.usual_window) : 0;
  const std::vector<bool> windowed = windowed_layers(config, family, sizes.layers, window);
  const std::vector<bool> turned = turned_layers(config, family, sizes.layers);
  const ExpertLayers expert_layers(config, sizes.layers);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    LanguageLayer layer = decoder.layer;
    if (family.latent) {
      layer.mixer = latent_of(config, sizes.heads);
    } else if (family.has_attention) {
      GroupedQueryAttention attention = decoder.attention;
      attention.window = windowed[at] ? window : 0;
      const bool turns = turned[at] && (!family.turns_in_windows || window == 0 || windowed[at]);
      if (!turns) attention.rotary_width = 0;
      layer.mixer = attention;
    }
    std::optional<ExpertFeedForward> experts;
    if (family.experts != nullptr && expert_layers.has(i)) {
      experts = experts_of(config, family, sizes.width, i, sizes.layers);
    }
    if (experts) {
      layer.feed_forward = *experts;
    } else if (family.has_feed_forward) {
      layer.feed_forward =
          DenseFeedForward{.width = dense_width(config, family, sizes.width, i, sizes.layers),
                           .gated = family.gated,
                           .biases = family.feed_forward_biases.of(config)};
    }
    if (family.adjust_layer != nullptr) family.adjust_layer({config, i, sizes.layers, layer});
    add_layer(network, layer);
  }
  if (network.prediction_layers == 0) {
    network.prediction_layers = config.count_or("num_nextn_predict_layers", 0);
  }
  if (network.prediction_layers > 0) network.prediction_kind = network.order.back();
  return network;
}

}  // namespace tracecast::language
