#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "models/language/config_object.hpp"
#include "models/language/network.hpp"

/// Families of decoders as rows: what their layers have and what their files' keys mean. Nothing
/// else knows a family.
namespace tracecast::language {

/// A key that is true or false, and what holds without it; without a key that always holds.
/// `inverted`: the key says the opposite ("no_bias").
struct Switch {
  std::string_view key{};
  bool otherwise = false;
  bool inverted = false;

  [[nodiscard]] bool of(const ConfigObject& config) const {
    if (key.empty() || !config.has(key)) return otherwise;
    return config.flag_or(key, otherwise) != inverted;
  }
};
inline constexpr Switch kAlways{"", true};
inline constexpr Switch kNever{"", false};

/// Where the norms of a layer stand. A norm of the sum with the residual costs what one of the
/// result costs.
enum class NormPlace { Before, After, BeforeAndAfter, AfterSum };

/// Experts of a family. Their number, width and choice, and the layers that have them, are read by
/// the names in `keys` and the rules of the families' classes (config_decoder.cpp); a file that
/// states none has a dense feed-forward.
struct ExpertTraits {
  bool loops = false;  ///< its source runs expert by expert
  bool biases = false, clamped = false;
  bool shared_gate = false;
  Switch sigmoid_scores{};
  Switch correction_bias{};
  bool scores_by_key = false;  ///< scoring_func and topk_method say the two above
  bool residual = false;       ///< a dense feed-forward as wide as the layer runs beside them
  bool beside_dense = false;   ///< the layers' dense feed-forward does
  Switch present = kAlways;    ///< layers have experts where the file states some
};

/// A layer while it is described: the row's own, with what the file says of layer `index`.
struct LayerInPlace {
  const ConfigObject& config;
  std::int64_t index, layers;
  LanguageLayer& layer;
};
/// The network while it is described.
struct Decoder {
  LanguageNetwork network;
  GroupedQueryAttention attention;
  LanguageLayer layer;  ///< parallel and norms; what all layers have alike
};

/// A row. What is left out is Llama's.
struct DecoderFamily {
  std::string_view model_type;
  LanguageNorm norm = LanguageNorm::RootMeanSquare;
  Switch norm_biases{};
  bool norm_learned = true;
  NormPlace norm_place = NormPlace::Before;
  Switch parallel{};     ///< attention and feed-forward read the layer's input
  Switch shared_norm{};  ///< and the same norm
  bool embedding_norm = false;
  Switch last_norm = kAlways;
  Switch tied{"tie_word_embeddings", false};
  Switch head_bias{};

  LanguagePositions positions = LanguagePositions::Rotary;
  Switch alibi{};                    ///< instead
  std::int64_t extra_positions = 0;  ///< rows that the class adds to the table
  double rotary_share = 1;           ///< of a head's channels
  std::int64_t rotary_channels = 0;  ///< so many where the file says none; 0: the share
  std::int64_t unturned_every =
      0;  ///< every so many-th layer turns no heads; 0: no_rope_layers alone says
  bool turns_in_windows = false;  ///< layers that see everything turn no heads

  std::int64_t head_width = 0;  ///< where the file says none; 0: width / heads
  Switch one_kv_head{};
  Switch grouped = kAlways;  ///< else as many heads of keys as of queries
  Switch input_biases{"attention_bias", false}, output_bias{"attention_bias", false};
  bool packed = false;
  HeadNorm head_norm = HeadNorm::None;
  Switch has_head_norm = kAlways;
  bool sinks = false;
  bool latent = false;        ///< keys and values of low rank
  bool has_attention = true;  ///< else the file has no heads

  Switch windowed = kAlways;      ///< a window that the file states counts
  std::int64_t usual_window = 0;  ///< where it states none
  std::int64_t whole_every = 0;   ///< every so many-th layer sees everything; 0: none does
  bool whole_first = false;       ///< and the first of them does, not the last
  bool first_whole = false;       ///< the first max_window_layers do

  bool has_feed_forward = true, gated = true;
  Switch feed_forward_biases{"mlp_bias", false};
  std::string_view activation = "silu";
  std::int64_t feed_forward_multiple = 0;  ///< of the width, where the file says no width
  bool halves_feed_forward = false;        ///< the file's width is that of both GEMMs in together
  const ExpertTraits* experts = nullptr;

  void (*adjust)(const ConfigObject& config, Decoder& decoder) = nullptr;
  void (*adjust_layer)(const LayerInPlace& at) = nullptr;
};

/// All rows, in the order of their names.
[[nodiscard]] std::span<const DecoderFamily> decoder_families();

/// What the class of a family sets where a file leaves it out, as an object of keys; {} where no
/// file relies on it.
[[nodiscard]] std::string_view class_defaults(std::string_view family);

/// The network of a file whose model_type is the row's.
[[nodiscard]] LanguageNetwork read_decoder(const ConfigObject& config, const DecoderFamily& family);

// Rules of single families, for their rows (config_rules.cpp).
void falcon_layers(const ConfigObject& config, Decoder& decoder);
void baichuan_positions(const ConfigObject& config, Decoder& decoder);
void mpt_layers(const ConfigObject& config, Decoder& decoder);
void minimax_m2_prediction(const ConfigObject& config, Decoder& decoder);
void opt_layers(const ConfigObject& config, Decoder& decoder);
void mamba_layer(const LayerInPlace& at);
void mamba2_layer(const LayerInPlace& at);
void jamba_layer(const LayerInPlace& at);
void bamba_layer(const LayerInPlace& at);
void granite_hybrid_layer(const LayerInPlace& at);
void falcon_h1_layer(const LayerInPlace& at);
void kimi_linear_layer(const LayerInPlace& at);
void minimax_layer(const LayerInPlace& at);
void openelm_layer(const LayerInPlace& at);
void gemma4_inputs(const ConfigObject& config, Decoder& decoder);
void gemma4_layer(const LayerInPlace& at);
void deepseek_v4_streams(const ConfigObject& config, Decoder& decoder);
void deepseek_v4_layer(const LayerInPlace& at);

}  // namespace tracecast::language
