#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/language/network.hpp"

namespace tracecast::language {

/// An object of a config.json with its place in the file. A key whose value is null counts as absent.
/// All throw InputError naming file and key path, what was found and what was expected.
class ConfigObject {
 public:
  ConfigObject(const nlohmann::json& value, std::string where, std::string path = {});

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  /// A size from 1 to 2^24.
  [[nodiscard]] std::int64_t size(std::string_view key) const;
  [[nodiscard]] std::int64_t size_or(std::string_view key, std::int64_t otherwise) const;
  /// The first of two names of a size, for classes that know both.
  [[nodiscard]] std::int64_t size_of_either(std::string_view key, std::string_view other) const;
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
  [[nodiscard]] std::optional<ConfigObject> child(std::string_view key) const;

  [[nodiscard]] std::string place(std::string_view key) const;
  [[noreturn]] void fail(std::string_view key, const std::string& found,
                         std::string_view expected) const;

 private:
  [[nodiscard]] const nlohmann::json* find(std::string_view key) const;
  [[nodiscard]] const nlohmann::json& get(std::string_view key, std::string_view expected) const;
  [[nodiscard]] std::int64_t whole(const nlohmann::json& value, std::string_view key,
                                   std::int64_t least) const;

  const nlohmann::json* value_;
  std::string where_, path_;
};

/// What nearly every family states in the same words.
struct CommonSizes {
  std::int64_t width = 1, layers = 1, heads = 1, kv_heads = 1, head_width = 1;
};
/// hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads (else as many), head_dim (else
/// `usual_head_width`, or hidden_size / num_attention_heads where that is 0).
[[nodiscard]] CommonSizes common_sizes(const ConfigObject& config,
                                       std::int64_t usual_head_width = 0);
/// Channels of a head that rotary positions turn: partial_rotary_factor, here or in rope_parameters.
[[nodiscard]] std::int64_t rotary_width(const ConfigObject& config, std::int64_t head_width,
                                        double usual_share = 1);
/// Whether rotary positions are scaled besides: YaRN by more than 1, unless attention_factor is 1 or mscale equals
/// mscale_all_dim, in rope_scaling or rope_parameters. Source: transformers, modeling_rope_utils.py.
[[nodiscard]] bool scales_rotation(const ConfigObject& config);
/// An activation by its name in hidden_act and the like.
[[nodiscard]] LanguageActivation activation_of(const ConfigObject& config, std::string_view key,
                                               std::string_view usual);

// One reader per group of families; `family` is the file's model_type.
[[nodiscard]] LanguageNetwork read_dense(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_mixture(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_gpt_oss(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_minimax(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_llama4(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_latent(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_delta_hybrid(const ConfigObject& config,
                                                std::string_view family);
[[nodiscard]] LanguageNetwork read_nemotron_h(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_gemma(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_bloom(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_falcon(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_gpt2(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_gpt_neox(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_opt(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_phi(const ConfigObject& config, std::string_view family);
[[nodiscard]] LanguageNetwork read_qwen1(const ConfigObject& config, std::string_view family);

/// Parameters of Llama 4's encoder of images, its adapter and the product that leads to words `width` wide.
[[nodiscard]] double llama4_encoder_parameters(const ConfigObject& vision, std::int64_t width);

}  // namespace tracecast::language
