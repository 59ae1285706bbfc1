#include "models/language/config_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::language {
namespace {

constexpr std::int64_t kMost = 1 << 24;
constexpr std::size_t kMostShown = 40;  ///< characters of a value that an error repeats

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return text;
}

}  // namespace

ConfigObject::ConfigObject(const nlohmann::json& value, std::string where, std::string path)
    : value_(&value), where_(std::move(where)), path_(std::move(path)) {
  if (value.is_object()) return;
  throw InputError(path_.empty() ? where_ : fmt::format("{}: {}", where_, path_), shown(value),
                   "an object of keys and values");
}

std::string ConfigObject::place(std::string_view key) const {
  return path_.empty() ? fmt::format("{}: {}", where_, key)
                       : fmt::format("{}: {}.{}", where_, path_, key);
}

void ConfigObject::fail(std::string_view key, const std::string& found,
                        std::string_view expected) const {
  throw InputError(place(key), found, expected);
}

const nlohmann::json* ConfigObject::find(std::string_view key) const {
  const auto found = value_->find(key);
  return found == value_->end() || found->is_null() ? nullptr : &*found;
}

const nlohmann::json& ConfigObject::get(std::string_view key, std::string_view expected) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) fail(key, "nothing", expected);
  return *value;
}

std::int64_t ConfigObject::whole(const nlohmann::json& value, std::string_view key,
                                 std::int64_t least) const {
  const std::string expected = fmt::format("a whole number from {} to {}", least, kMost);
  if (!value.is_number_integer()) fail(key, shown(value), expected);
  // Unsigned ones may not fit into 64 bits with a sign.
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMost)
                        : value.get<std::int64_t>() <= kMost;
  if (!fits || value.get<std::int64_t>() < least) fail(key, shown(value), expected);
  return value.get<std::int64_t>();
}

std::int64_t ConfigObject::size(std::string_view key) const {
  return whole(get(key, "a whole number from 1 on"), key, 1);
}

std::int64_t ConfigObject::size_or(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? size(key) : otherwise;
}

std::int64_t ConfigObject::size_of_either(std::string_view key, std::string_view other) const {
  return has(other) ? size(other) : size(key);
}

std::int64_t ConfigObject::count_or(std::string_view key, std::int64_t otherwise) const {
  const nlohmann::json* value = find(key);
  return value == nullptr ? otherwise : whole(*value, key, 0);
}

bool ConfigObject::flag_or(std::string_view key, bool otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(key, shown(*value), "true or false");
  return value->get<bool>();
}

double ConfigObject::share_or(std::string_view key, double otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0 && number <= 1)) fail(key, shown(*value), "a number from 0 to 1");
  return number;
}

double ConfigObject::number_or(std::string_view key, double otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0 && number <= kMost)) fail(key, shown(*value), "a number from 0 to 2^24");
  return number;
}

std::string ConfigObject::text(std::string_view key) const {
  const nlohmann::json& value = get(key, "a text");
  if (!value.is_string()) fail(key, shown(value), "a text");
  return value.get<std::string>();
}

std::string ConfigObject::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

std::vector<std::string> ConfigObject::texts(std::string_view key) const {
  const nlohmann::json& list = get(key, "a list of texts");
  if (!list.is_array()) fail(key, shown(list), "a list of texts");
  std::vector<std::string> result;
  for (const nlohmann::json& value : list) {
    if (!value.is_string()) fail(key, shown(value), "a text");
    result.push_back(value.get<std::string>());
  }
  return result;
}

std::vector<std::int64_t> ConfigObject::counts(std::string_view key) const {
  const nlohmann::json& list = get(key, "a list of whole numbers");
  if (!list.is_array()) fail(key, shown(list), "a list of whole numbers");
  std::vector<std::int64_t> result;
  for (const nlohmann::json& value : list) result.push_back(whole(value, key, 0));
  return result;
}

std::optional<ConfigObject> ConfigObject::child(std::string_view key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  return ConfigObject(*value, where_, path);
}

CommonSizes common_sizes(const ConfigObject& config, std::int64_t usual_head_width) {
  CommonSizes sizes{.width = config.size("hidden_size"),
                    .layers = config.size("num_hidden_layers"),
                    .heads = config.size("num_attention_heads")};
  constexpr std::int64_t kMostLayers = 4096;
  if (sizes.layers > kMostLayers) {
    config.fail("num_hidden_layers", std::to_string(sizes.layers), "at most 4096");
  }
  sizes.kv_heads = config.size_or("num_key_value_heads", sizes.heads);
  if (sizes.kv_heads > sizes.heads || sizes.heads % sizes.kv_heads != 0) {
    config.fail("num_key_value_heads", std::to_string(sizes.kv_heads),
                fmt::format("a divisor of num_attention_heads, {}", sizes.heads));
  }
  if (config.has("head_dim")) {
    sizes.head_width = config.size("head_dim");
  } else if (usual_head_width > 0) {
    sizes.head_width = usual_head_width;
  } else if (sizes.width % sizes.heads != 0) {
    config.fail("hidden_size", fmt::format("{} over {} heads", sizes.width, sizes.heads),
                "a multiple of num_attention_heads, or head_dim");
  } else {
    sizes.head_width = sizes.width / sizes.heads;
  }
  return sizes;
}

std::int64_t rotary_width(const ConfigObject& config, std::int64_t head_width, double usual_share) {
  double share = config.share_or("partial_rotary_factor", usual_share);
  if (const auto rope = config.child("rope_parameters")) {
    share = rope->share_or("partial_rotary_factor", share);
  }
  return static_cast<std::int64_t>(std::llround(share * static_cast<double>(head_width)));
}

bool scales_rotation(const ConfigObject& config) {
  auto rope = config.child("rope_scaling");
  if (!rope) rope = config.child("rope_parameters");
  if (!rope || rope->text_or("rope_type", rope->text_or("type", "default")) != "yarn") return false;
  if (rope->has("attention_factor")) return rope->number_or("attention_factor", 1) != 1;
  const bool cancels = rope->has("mscale") && rope->has("mscale_all_dim") &&
                       rope->number_or("mscale", 1) == rope->number_or("mscale_all_dim", 1);
  return !cancels && rope->number_or("factor", 1) > 1;
}

LanguageActivation activation_of(const ConfigObject& config, std::string_view key,
                                 std::string_view usual) {
  static constexpr std::array<std::pair<std::string_view, LanguageActivation>, 8> kKnown{{
      {"silu", LanguageActivation::Silu},
      {"swish", LanguageActivation::Silu},
      {"gelu", LanguageActivation::Gelu},
      {"gelu_new", LanguageActivation::GeluTanhInSteps},
      {"gelu_fast", LanguageActivation::GeluTanhInSteps},
      {"gelu_pytorch_tanh", LanguageActivation::GeluTanh},
      {"relu", LanguageActivation::Relu},
      {"relu2", LanguageActivation::SquaredRelu},
  }};
  const std::string name = config.text_or(key, usual);
  for (const auto& [known, activation] : kKnown) {
    if (name == known) return activation;
  }
  config.fail(key, "\"" + name.substr(0, kMostShown) + "\"",
              "silu, gelu, gelu_new, gelu_pytorch_tanh, relu or relu2");
}

}  // namespace tracecast::language
