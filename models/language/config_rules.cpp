#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/language/families.hpp"

/// What single families have beside their rows. Sources: transformers, modeling_FAMILY.py and
/// configuration_FAMILY.py; MosaicML's configuration_mpt.py, Baichuan's configuration_baichuan.py
/// and modeling_baichuan.py, Apple's configuration_openelm.py, Moonshot's modeling_kimi.py,
/// MiniMax's configuration_minimax_text_01.py.
namespace tracecast::language {
namespace {

std::int64_t width_of(const ConfigObject& config) {
  return config.size(config.first_of(keys::kWidth));
}

/// Channels that a state space layer widens its input to.
std::int64_t expanded(const ConfigObject& config, std::string_view factor) {
  return std::llround(config.number_or(factor, 2) * static_cast<double>(width_of(config)));
}

/// "auto": a sixteenth of the width.
std::int64_t step_rank(const ConfigObject& config, std::string_view key) {
  if (config.has(key) && !config.is_text(key)) return config.size(key);
  return (width_of(config) + 15) / 16;
}

/// Mamba 2 by keys that begin with mamba_.
Mamba2 prefixed_mamba2(const ConfigObject& config) {
  Mamba2 mamba{.heads = config.size_or("mamba_n_heads", 128),
               .groups = config.size_or("mamba_n_groups", 1),
               .state = config.size_or("mamba_d_state", 256),
               .convolution = config.size_or("mamba_d_conv", 4),
               .chunk = config.size_or("mamba_chunk_size", 256),
               .biases = config.flag_or("mamba_proj_bias", false),
               .convolution_bias = config.flag_or("mamba_conv_bias", true)};
  const std::int64_t inner =
      config.has("mamba_d_ssm") ? config.size("mamba_d_ssm") : expanded(config, "mamba_expand");
  const bool is_stated = config.has("mamba_d_head") && !config.is_text("mamba_d_head");
  if (!is_stated && inner % mamba.heads != 0) {
    config.fail("mamba_n_heads", std::to_string(mamba.heads),
                fmt::format("a divisor of the {} channels", inner));
  }
  mamba.head_width = is_stated ? config.size("mamba_d_head") : inner / mamba.heads;
  return mamba;
}

/// Which layers a list of numbers names; they count from `first`.
bool names_layer(const ConfigObject& config, std::string_view key, std::int64_t index,
                 std::int64_t first) {
  if (!config.has(key)) return false;
  const std::vector<std::int64_t> list = config.counts(key);
  return std::find(list.begin(), list.end(), index + first) != list.end();
}

/// The word for a layer in layer_types.
std::string type_of(const LayerInPlace& at) {
  if (!at.config.has("layer_types")) return {};
  const std::vector<std::string> types = at.config.texts("layer_types");
  return types.at(static_cast<std::size_t>(at.index));  // their number was checked
}

void turn_only_with_rope(const LayerInPlace& at) {
  if (at.config.text_or("position_embedding_type", "nope") == "rope") return;
  std::get<GroupedQueryAttention>(at.layer.mixer).rotary_width = 0;
}

}  // namespace

void falcon_layers(const ConfigObject& config, Decoder& decoder) {
  const bool is_new = config.flag_or("new_decoder_architecture", false);
  LanguageLayer& layer = decoder.layer;
  layer.parallel = is_new || config.flag_or("parallel_attn", true);
  layer.shared_norm =
      layer.parallel && config.size_or("num_ln_in_parallel_attn", is_new ? 2 : 1) == 1;
  if (is_new) return;
  decoder.attention.kv_heads = config.flag_or("multi_query", true) ? 1 : decoder.attention.heads;
}

/// The larger network has linear positions; its files say no max_position_embeddings.
void baichuan_positions(const ConfigObject& config, Decoder& decoder) {
  if (config.has("max_position_embeddings")) return;
  decoder.network.positions = LanguagePositions::Alibi;
  decoder.attention.rotary_width = 0;
}

void mpt_layers(const ConfigObject& config, Decoder& decoder) {
  if (config.flag_or("attn_config.alibi", false)) {
    decoder.network.positions = LanguagePositions::Alibi;
  } else if (config.flag_or("attn_config.rope", false)) {
    decoder.network.positions = LanguagePositions::Rotary;
    decoder.attention.rotary_width = decoder.attention.head_width;
  }
  if (decoder.network.positions != LanguagePositions::Learned) decoder.network.position_rows = 0;
}

void minimax_m2_prediction(const ConfigObject& config, Decoder& decoder) {
  if (!config.flag_or("use_mtp", true)) return;
  decoder.network.prediction_layers =
      config.count_or("num_mtp_modules", 0) * config.count_or("mtp_transformer_layers", 1);
}

void opt_layers(const ConfigObject& config, Decoder& decoder) {
  LanguageNetwork& network = decoder.network;
  network.embedding_width = config.size_or("word_embed_proj_dim", network.width);
  if (network.embedding_width == network.width) network.embedding_width = 0;
  const bool before = config.flag_or("do_layer_norm_before", true);
  decoder.layer.norms_before = before;
  decoder.layer.norms_after = !before;
  network.last_norm = before && !config.flag_or("_remove_final_layer_norm", false);
}

void mamba_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  constexpr std::string_view kInner[] = {"intermediate_size", "d_inner"};
  const std::string_view inner = c.first_of(kInner);
  at.layer.mixer = Mamba{.inner = c.has(inner) ? c.size(inner) : expanded(c, "expand"),
                         .state = c.size_or("state_size", 16),
                         .step_rank = step_rank(c, "time_step_rank"),
                         .convolution = c.size_or("conv_kernel", 4),
                         .biases = c.flag_or("use_bias", false),
                         .convolution_bias = c.flag_or("use_conv_bias", true)};
}

void mamba2_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  const std::int64_t head_width = c.size_or("head_dim", 64);
  at.layer.mixer = Mamba2{.heads = c.size_or("num_heads", expanded(c, "expand") / head_width),
                          .head_width = head_width,
                          .groups = c.size_or("n_groups", 8),
                          .state = c.size_or("state_size", 128),
                          .convolution = c.size_or("conv_kernel", 4),
                          .chunk = c.size_or("chunk_size", 256),
                          .biases = c.flag_or("use_bias", false),
                          .convolution_bias = c.flag_or("use_conv_bias", true)};
}

void jamba_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  const std::int64_t period = c.size_or("attn_layer_period", 8);
  if (at.index % period == c.count_or("attn_layer_offset", 4) % period) return;
  at.layer.mixer = Mamba{.inner = expanded(c, "mamba_expand"),
                         .state = c.size_or("mamba_d_state", 16),
                         .step_rank = step_rank(c, "mamba_dt_rank"),
                         .convolution = c.size_or("mamba_d_conv", 4),
                         .biases = c.flag_or("mamba_proj_bias", false),
                         .convolution_bias = c.flag_or("mamba_conv_bias", true),
                         .norms = true};
}

void bamba_layer(const LayerInPlace& at) {
  if (names_layer(at.config, "attn_layer_indices", at.index, 0)) return;
  at.layer.mixer = prefixed_mamba2(at.config);
}

/// A layer without experts has the shared feed-forward alone.
void granite_hybrid_layer(const LayerInPlace& at) {
  if (auto* dense = std::get_if<DenseFeedForward>(&at.layer.feed_forward)) {
    dense->width = at.config.size("shared_intermediate_size");
  }
  if (const std::string type = type_of(at); type.empty() || type == "mamba") {
    at.layer.mixer = prefixed_mamba2(at.config);
  } else if (type != "attention") {
    at.config.fail("layer_types", "\"" + type.substr(0, 40) + "\"", "mamba or attention");
  } else {
    turn_only_with_rope(at);
  }
}

/// Attention and a state space layer read the same norm.
void falcon_h1_layer(const LayerInPlace& at) {
  Mamba2 mamba = prefixed_mamba2(at.config);
  mamba.norm = at.config.flag_or("mamba_rms_norm", false);
  at.layer.beside = mamba;
}

void kimi_linear_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  const bool is_linear = names_layer(c, "linear_attn_config.kda_layers", at.index, 1);
  const bool is_whole = names_layer(c, "linear_attn_config.full_attn_layers", at.index, 1);
  if (is_whole || !is_linear) return;
  const std::int64_t heads = c.size("linear_attn_config.num_heads"),
                     width = c.size("linear_attn_config.head_dim");
  at.layer.mixer =
      GatedDeltaNet{.key_heads = heads,
                    .value_heads = heads,
                    .key_width = width,
                    .value_width = width,
                    .convolution = c.size_or("linear_attn_config.short_conv_kernel_size", 4),
                    .decay_rank = width,
                    .gate_rank = width};
}

/// attn_type_list: 1 where a layer's attention sees everything; layer_types in words.
void minimax_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  bool is_whole = (at.index + 1) % 8 == 0;
  if (c.has("attn_type_list")) {
    const std::vector<std::int64_t> types = c.counts("attn_type_list");
    if (static_cast<std::int64_t>(types.size()) != at.layers) {
      c.fail("attn_type_list", fmt::format("{} layers", types.size()),
             fmt::format("num_hidden_layers, {}", at.layers));
    }
    is_whole = types[static_cast<std::size_t>(at.index)] != 0;
  } else if (const std::string type = type_of(at); !type.empty()) {
    is_whole = type == "full_attention";
  }
  if (is_whole) return;
  const auto& attention = std::get<GroupedQueryAttention>(at.layer.mixer);
  at.layer.mixer = GatedDeltaNet{.key_heads = attention.heads,
                                 .value_heads = attention.heads,
                                 .key_width = attention.head_width,
                                 .value_width = attention.head_width,
                                 .convolution = 0,
                                 .fixed_decay = true};
}

void openelm_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  const std::int64_t width = c.size("head_dim");
  const bool norms = c.flag_or("normalize_qk_projections", true);
  at.layer.mixer =
      GroupedQueryAttention{.heads = c.size_of_layer("num_query_heads", at.index, at.layers),
                            .kv_heads = c.size_of_layer("num_kv_heads", at.index, at.layers),
                            .head_width = width,
                            .rotary_width = width,
                            .packed = !norms,
                            .head_norm = norms ? HeadNorm::PerHead : HeadNorm::None};
  const double exact =
      c.number_of_layer("ffn_multipliers", at.index, at.layers) * static_cast<double>(width_of(c));
  // To the nearest multiple, not below nine tenths.
  const std::int64_t divisor = c.size_or("ffn_dim_divisor", 256);
  const auto parts = static_cast<std::int64_t>((exact + static_cast<double>(divisor) / 2) /
                                               static_cast<double>(divisor));
  std::int64_t wide = std::max(divisor, parts * divisor);
  if (static_cast<double>(wide) < 0.9 * exact) wide += divisor;
  at.layer.feed_forward = DenseFeedForward{.width = wide, .gated = c.flag_or("ffn_with_glu", true)};
}

/// A table of numbers per layer.
void gemma4_inputs(const ConfigObject& config, Decoder& decoder) {
  LanguageNetwork& network = decoder.network;
  network.layer_input_width = config.count_or("hidden_size_per_layer_input", 0);
  if (network.layer_input_width == 0) return;
  network.layer_input_vocabulary = config.size_or("vocab_size_per_layer_input", network.vocabulary);
}

/// Layers that see everything have heads of their own width and number, whose keys may be the
/// values; the last layers read the keys of earlier ones.
void gemma4_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  auto& attention = std::get<GroupedQueryAttention>(at.layer.mixer);
  const bool shares = c.flag_or("attention_k_eq_v", false);
  const std::int64_t whole_width = c.size_or("global_head_dim", 512);
  const std::int64_t whole_heads = c.count_or("num_global_key_value_heads", 0);
  if (attention.window == 0) {
    attention.head_width = whole_width;
    if (shares && whole_heads > 0) attention.kv_heads = whole_heads;
    attention.keys_are_values = shares;
    constexpr double kTurned = 0.25;
    attention.rotary_width = std::llround(kTurned * static_cast<double>(whole_width));
  }
  const std::int64_t first = at.layers - std::min(at.layers, c.count_or("num_kv_shared_layers", 0));
  const bool wide = c.flag_or("use_double_wide_mlp", false);
  if (at.index < first || first == 0) return;
  attention.borrows_keys = true;
  auto* dense = std::get_if<DenseFeedForward>(&at.layer.feed_forward);
  if (dense != nullptr && wide) dense->width *= 2;
}

void deepseek_v4_streams(const ConfigObject& config, Decoder& decoder) {
  decoder.network.streams = config.size_or("hc_mult", 4);
  // Sums, small constants and quotients of rows and columns, and what comes before.
  decoder.network.mixing_ops = 6 * config.count_or("hc_sinkhorn_iters", 20) + 12;
}

/// layer_types in words, or compress_ratios: tokens of an entry. Without either, two layers of many
/// tokens, then both kinds in turn.
void deepseek_v4_layer(const LayerInPlace& at) {
  const ConfigObject& c = at.config;
  constexpr std::int64_t kFew = 4, kMany = 128;
  std::int64_t rate = at.index < 2 || at.index % 2 == 0 ? kMany : kFew;
  const std::int64_t few = c.size_or("compress_rates.compressed_sparse_attention", kFew);
  const std::int64_t many = c.size_or("compress_rates.heavily_compressed_attention", kMany);
  bool is_sparse = rate == kFew;
  if (const std::string type = type_of(at); !type.empty()) {
    is_sparse = type == "compressed_sparse_attention";
    rate = is_sparse ? few : type == "heavily_compressed_attention" ? many : 0;
    if (rate == 0 && type != "sliding_attention") {
      c.fail("layer_types", "\"" + type.substr(0, 40) + "\"",
             "sliding_attention, compressed_sparse_attention or heavily_compressed_attention");
    }
  } else if (c.has("compress_ratios")) {
    const std::vector<std::int64_t> ratios = c.counts("compress_ratios");
    if (static_cast<std::int64_t>(ratios.size()) < at.layers) {
      c.fail("compress_ratios", fmt::format("{} layers", ratios.size()),
             fmt::format("num_hidden_layers, {}", at.layers));
    }
    rate = ratios[static_cast<std::size_t>(at.index)];
    is_sparse = rate > 0 && rate < kMany;
  }
  // The first layers choose experts by the token alone; they have the others' weights.
  (void)c.count_or("num_hash_layers", 0);
  const auto& heads = std::get<GroupedQueryAttention>(at.layer.mixer);
  CompressedAttention attention{.heads = heads.heads,
                                .head_width = heads.head_width,
                                .rotary_width = c.size_or("qk_rope_head_dim", 64),
                                .query_rank = c.size("q_lora_rank"),
                                .output_groups = c.size("o_groups"),
                                .output_rank = c.size("o_lora_rank"),
                                .window = c.size_or("sliding_window", 128),
                                .rate = rate,
                                .overlaps = is_sparse};
  const SparseIndexer indexer{.heads = c.size_or("index_n_heads", 64),
                              .head_width = c.size_or("index_head_dim", 128),
                              .top_keys = c.size_or("index_topk", 512)};
  if (is_sparse) attention.indexer = indexer;
  at.layer.mixer = attention;
}

}  // namespace tracecast::language
