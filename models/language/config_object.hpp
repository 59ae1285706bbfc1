#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/language/network.hpp"

namespace tracecast::language {

/// An object of a config.json with its place in the file. A key whose value is null counts as
/// absent. All throw InputError naming file and key path, what was found and what was expected.
class ConfigObject {
 public:
  ConfigObject(const nlohmann::json& value, std::string where, std::string path = {});

  /// Of all functions: a key of an object inside this one is written with a point
  /// ("attn_config.alibi").
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// The first of these keys that is there; the first of all where none is.
  [[nodiscard]] std::string_view first_of(std::span<const std::string_view> keys) const;
  /// A size from 1 to 2^24.
  [[nodiscard]] std::int64_t size(std::string_view key) const;
  [[nodiscard]] std::int64_t size_or(std::string_view key, std::int64_t otherwise) const;
  /// A count from 0 to 2^24.
  [[nodiscard]] std::int64_t count_or(std::string_view key, std::int64_t otherwise) const;
  [[nodiscard]] bool flag_or(std::string_view key, bool otherwise) const;
  /// A share from 0 to 1.
  [[nodiscard]] double share_or(std::string_view key, double otherwise) const;
  /// A number from 0 to 2^24.
  [[nodiscard]] double number_or(std::string_view key, double otherwise) const;
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  /// Whole numbers of a list, each from 0 to 2^24.
  [[nodiscard]] std::vector<std::int64_t> counts(std::string_view key) const;
  /// A size of the layer `index` of `layers`: one for all, or a list with one for each.
  [[nodiscard]] std::int64_t size_of_layer(std::string_view key, std::int64_t index,
                                           std::int64_t layers) const;
  [[nodiscard]] std::optional<ConfigObject> child(std::string_view key) const;
  [[nodiscard]] std::vector<ConfigObject> children(
      std::string_view key) const;  ///< objects of a list
  /// A number of a layer, from 0 to 2^24, likewise.
  [[nodiscard]] double number_of_layer(std::string_view key, std::int64_t index,
                                       std::int64_t layers) const;
  [[nodiscard]] std::size_t entries(
      std::string_view key) const;  ///< of an object; 0: there is none
  [[nodiscard]] bool is_list(std::string_view key) const;
  [[nodiscard]] bool is_text(std::string_view key) const;
  [[nodiscard]] bool is_negative(
      std::string_view key) const;  ///< a number below 0: "none" to some classes
  /// Keys, here and inside, that state sizes by their names and that nobody asked for. Lists of
  /// words and of objects, and what names ids, probabilities, seeds and lengths of generated texts,
  /// are passed over.
  [[nodiscard]] std::vector<std::string> unread_sizes() const;

  /// The same object, which has these values where it states none: what a family's class sets,
  /// where files leave it out.
  [[nodiscard]] ConfigObject with_defaults(const nlohmann::json& defaults) const;

  [[nodiscard]] std::string place(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, const std::string& found,
                         std::string_view expected) const;

 private:
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;
  [[nodiscard]] const nlohmann::json& get(std::string_view key, std::string_view expected) const;
  [[nodiscard]] std::int64_t whole(const nlohmann::json& value, std::string_view key,
                                   std::int64_t least) const;

  const nlohmann::json* value_;
  const nlohmann::json* defaults_ = nullptr;
  std::string where_, path_;
  std::shared_ptr<std::set<std::string, std::less<>>> read_;  ///< paths of keys that were asked for
};

/// Names that families give the same size.
namespace keys {
inline constexpr std::string_view kWidth[] = {"hidden_size", "n_embd", "d_model", "n_embed",
                                              "model_dim"};
inline constexpr std::string_view kLayers[] = {"num_hidden_layers", "n_layer", "n_layers",
                                               "num_layers", "num_transformer_layers"};
inline constexpr std::string_view kHeads[] = {"num_attention_heads", "n_head", "n_heads",
                                              "num_heads"};
inline constexpr std::string_view kKvHeads[] = {"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                                "multi_query_group_num", "attn_config.kv_n_heads"};
inline constexpr std::string_view kHeadWidth[] = {"head_dim", "kv_channels", "attention_head_dim"};
inline constexpr std::string_view kFeedForward[] = {"dense_intermediate_size", "intermediate_size",
                                                    "ffn_dim", "n_inner", "ffn_hidden_size"};
inline constexpr std::string_view kVocabulary[] = {"padded_vocab_size", "vocab_size"};
inline constexpr std::string_view kContext[] = {
    "max_position_embeddings", "n_positions",        "seq_length", "max_seq_len", "n_ctx",
    "model_max_length",        "max_sequence_length"};
inline constexpr std::string_view kActivation[] = {
    "hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act"};
inline constexpr std::string_view kWindow[] = {"sliding_window", "window_size",
                                               "attn_config.sliding_window_size"};
inline constexpr std::string_view kExperts[] = {"num_local_experts", "num_experts",
                                                "n_routed_experts", "moe_num_experts",
                                                "ffn_config.moe_num_experts"};
inline constexpr std::string_view kExpertsPerToken[] = {
    "num_experts_per_tok",  "experts_per_token", "num_experts_per_token", "moe_k", "moe_topk",
    "ffn_config.moe_top_k", "top_k_experts"};
inline constexpr std::string_view kExpertWidth[] = {
    "moe_intermediate_size", "ffn_config.ffn_hidden_size", "expert_dim", "intermediate_size"};
/// Width of the shared experts together.
inline constexpr std::string_view kSharedWidth[] = {"shared_expert_intermediate_size",
                                                    "shared_intermediate_size"};
/// Number of shared experts, each as wide as a routed one.
inline constexpr std::string_view kShared[] = {"n_shared_experts", "num_shared_experts",
                                               "num_shared_expert", "moe_num_shared_experts"};
}  // namespace keys

inline constexpr std::int64_t kMostLayers = 4096;

/// What nearly every family states in the same words.
struct CommonSizes {
  std::int64_t width = 1, layers = 1, heads = 1, kv_heads = 1, head_width = 1;
};
/// Width, layers, heads, heads of keys (else as many), width of a head (else `usual_head_width`, or
/// width / heads where that is 0), by the names in `keys`.
[[nodiscard]] CommonSizes common_sizes(const ConfigObject& config,
                                       std::int64_t usual_head_width = 0);
/// Channels of a head that rotary positions turn: partial_rotary_factor, here or in
/// rope_parameters.
[[nodiscard]] std::int64_t rotary_width(const ConfigObject& config, std::int64_t head_width,
                                        double usual_share = 1);
/// Whether rotary positions are scaled besides: YaRN by more than 1, unless attention_factor is 1
/// or mscale equals mscale_all_dim, in rope_scaling or rope_parameters. Source: transformers,
/// modeling_rope_utils.py.
[[nodiscard]] bool scales_rotation(const ConfigObject& config);
/// An activation by its name in hidden_act and the like.
[[nodiscard]] LanguageActivation activation_of(const ConfigObject& config, std::string_view key,
                                               std::string_view usual);

// Readers of families whose layers follow rules of their own (all others are rows of families.hpp);
// `family` is the file's model_type.
[[nodiscard]] LanguageNetwork read_llama4(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_delta_hybrid(const ConfigObject& config,
                                                std::string_view family);
[[nodiscard]] LanguageNetwork read_nemotron_h(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_nemotron_nas(const ConfigObject& config,
                                                std::string_view family);

/// Parameters of Llama 4's encoder of images, its adapter and the GEMM that leads to words `width`
/// wide.
[[nodiscard]] double llama4_encoder_parameters(const ConfigObject& vision, std::int64_t width);

}  // namespace tracecast::language
