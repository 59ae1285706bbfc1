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
    : value_(&value),
      where_(std::move(where)),
      path_(std::move(path)),
      read_(std::make_shared<std::set<std::string, std::less<>>>()) {
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

ConfigObject ConfigObject::with_defaults(const nlohmann::json& defaults) const {
  ConfigObject result = *this;
  result.defaults_ = &defaults;
  return result;
}

const nlohmann::json* ConfigObject::find(std::string_view key) const {
  const nlohmann::json* value = value_;
  std::string path = path_;
  while (true) {
    const std::size_t point = key.find('.');
    const std::string_view part = key.substr(0, point);
    if (!value->is_object()) return nullptr;
    path += (path.empty() ? "" : ".") + std::string(part);
    read_->insert(path);
    auto found = value->find(part);
    if (found == value->end() || found->is_null()) {
      if (value != value_ || defaults_ == nullptr) return nullptr;
      found = defaults_->find(part);
      if (found == defaults_->end()) return nullptr;
    }
    value = &*found;
    if (point == std::string_view::npos) return value;
    key = key.substr(point + 1);
  }
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

std::string_view ConfigObject::first_of(std::span<const std::string_view> keys) const {
  std::string_view first;
  for (const std::string_view key : keys) {  // all count as asked for
    if (has(key) && first.empty()) first = key;
  }
  return first.empty() ? keys.front() : first;
}

std::int64_t ConfigObject::size_of_layer(std::string_view key, std::int64_t index,
                                         std::int64_t layers) const {
  const nlohmann::json& value = get(key, "a whole number from 1 on");
  if (!value.is_array()) return size(key);
  if (static_cast<std::int64_t>(value.size()) != layers) {
    fail(key, fmt::format("{} sizes", value.size()),
         fmt::format("one for each of {} layers", layers));
  }
  return whole(value[static_cast<std::size_t>(index)], key, 1);
}

double ConfigObject::number_of_layer(std::string_view key, std::int64_t index,
                                     std::int64_t layers) const {
  const nlohmann::json& value = get(key, "a number");
  if (!value.is_array()) return number_or(key, 0);
  if (static_cast<std::int64_t>(value.size()) != layers) {
    fail(key, fmt::format("{} numbers", value.size()),
         fmt::format("one for each of {} layers", layers));
  }
  const nlohmann::json& one = value[static_cast<std::size_t>(index)];
  const double number = one.is_number() ? one.get<double>() : -1;
  if (!(number >= 0 && number <= kMost)) fail(key, shown(one), "a number from 0 to 2^24");
  return number;
}

bool ConfigObject::is_text(std::string_view key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_string();
}

bool ConfigObject::is_negative(std::string_view key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_number() && value->get<double>() < 0;
}

std::size_t ConfigObject::entries(std::string_view key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_object() ? value->size() : 0;
}

bool ConfigObject::is_list(std::string_view key) const {
  const nlohmann::json* value = find(key);
  return value != nullptr && value->is_array();
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
  ConfigObject result(*value, where_, path);
  result.read_ = read_;
  return result;
}

std::vector<ConfigObject> ConfigObject::children(std::string_view key) const {
  const nlohmann::json& list = get(key, "a list of objects");
  if (!list.is_array()) fail(key, shown(list), "a list of objects");
  std::vector<ConfigObject> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", key, i);
    result.emplace_back(list[i], where_, path_.empty() ? name : path_ + "." + name);
    result.back().read_ = read_;
  }
  return result;
}

namespace {

/// Parts of names of sizes that change a network's shape, and parts of names of what changes none.
constexpr std::string_view kSizes[] = {"size",   "dim",    "width", "head",  "layer",
                                       "expert", "rank",   "inner", "num_",  "n_",
                                       "vocab",  "factor", "state", "kernel"};
constexpr std::string_view kNoSizes[] = {"token",
                                         "label",
                                         "beam",
                                         "return",
                                         "group",
                                         "position",
                                         "window",
                                         "chunk",
                                         "length",
                                         "init",
                                         "std",
                                         "topk",
                                         "top_k",
                                         "seq",
                                         "cache",
                                         "coef",
                                         "aux",
                                         "rope",
                                         "rotary",
                                         "freq",
                                         "pad",
                                         "eps",
                                         "scal",
                                         "dropout",
                                         "drop",
                                         "prob",
                                         "parallel",
                                         "pretraining_tp",
                                         "ep_size",
                                         "logit",
                                         "loss",
                                         "threshold",
                                         "penalty",
                                         "temperature",
                                         "quant",
                                         "seed",
                                         "version",
                                         "multiplier",
                                         "momentum",
                                         "bits",
                                         "time_step",
                                         "interval",
                                         "image_token",
                                         "buckets",
                                         "max_",
                                         "min_",
                                         "alpha",
                                         "jitter",
                                         "offset",
                                         "pooler",
                                         "ngram",
                                         "mask",
                                         "filter",
                                         "classifier",
                                         "codevector",
                                         "negatives",
                                         "tdnn",
                                         "xvector",
                                         "adapter",
                                         "feat_extract",
                                         "output_hidden",
                                         "switch",
                                         "languages",
                                         "conv_in_kernel",
                                         "conv_out_kernel",
                                         "embed_type_num"};

bool has_any(std::string_view name, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

void add_unread(const nlohmann::json& object, const std::string& path,
                const std::set<std::string, std::less<>>& read, std::vector<std::string>& unread) {
  for (const auto& [key, value] : object.items()) {
    const std::string here = path.empty() ? key : path + "." + key;
    // What belongs to other networks, to weights' formats, to generation, to the zoo.
    constexpr std::string_view kOthers[] = {"vision",    "audio",      "quantization",
                                            "tracecast", "generation", "task_specific",
                                            "label",     "rope",       "text_config"};
    if (has_any(key, kOthers)) continue;
    if (value.is_object()) {
      add_unread(value, here, read, unread);
      continue;
    }
    const bool is_number = value.is_number_integer() && value.get<std::int64_t>() > 1;
    const bool is_list = value.is_array() && !value.empty() && value[0].is_number_integer();
    if (!(is_number || is_list) || read.contains(here)) continue;
    if (has_any(key, kSizes) && !has_any(key, kNoSizes)) unread.push_back(here.substr(0, 60));
  }
}

}  // namespace

std::vector<std::string> ConfigObject::unread_sizes() const {
  std::vector<std::string> unread;
  add_unread(*value_, path_, *read_, unread);
  return unread;
}

CommonSizes common_sizes(const ConfigObject& config, std::int64_t usual_head_width) {
  CommonSizes sizes{.width = config.size(config.first_of(keys::kWidth)),
                    .layers = config.size(config.first_of(keys::kLayers)),
                    .heads = config.size(config.first_of(keys::kHeads))};
  if (sizes.layers > kMostLayers) {
    config.fail(config.first_of(keys::kLayers), std::to_string(sizes.layers), "at most 4096");
  }
  const std::string_view kv_heads = config.first_of(keys::kKvHeads);
  sizes.kv_heads = config.size_or(kv_heads, sizes.heads);
  if (sizes.kv_heads > sizes.heads || sizes.heads % sizes.kv_heads != 0) {
    config.fail(kv_heads, std::to_string(sizes.kv_heads),
                fmt::format("a divisor of {}, {}", config.first_of(keys::kHeads), sizes.heads));
  }
  if (const std::string_view width = config.first_of(keys::kHeadWidth); config.has(width)) {
    sizes.head_width = config.size(width);
  } else if (usual_head_width > 0) {
    sizes.head_width = usual_head_width;
  } else if (sizes.width % sizes.heads != 0) {
    config.fail(config.first_of(keys::kWidth),
                fmt::format("{} over {} heads", sizes.width, sizes.heads),
                fmt::format("a multiple of {}, or head_dim", config.first_of(keys::kHeads)));
  } else {
    sizes.head_width = sizes.width / sizes.heads;
  }
  return sizes;
}

std::int64_t rotary_width(const ConfigObject& config, std::int64_t head_width, double usual_share) {
  constexpr std::string_view kShare[] = {"partial_rotary_factor", "rotary_pct", "rope_pct",
                                         "rope_percent", "rotary_percent"};
  if (config.has("rotary_dim")) {
    const std::int64_t channels = config.size("rotary_dim");
    if (channels > head_width) {
      config.fail("rotary_dim", std::to_string(channels),
                  fmt::format("at most head_dim, {}", head_width));
    }
    return channels;
  }
  double share = config.share_or(config.first_of(kShare), usual_share);
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
  // xIELU is written in about as many steps as GELU by tanh (transformers, activations.py).
  static constexpr std::array<std::pair<std::string_view, LanguageActivation>, 19> kKnown{{
      {"silu", LanguageActivation::Silu},
      {"swish", LanguageActivation::Silu},
      {"gelu", LanguageActivation::Gelu},
      {"gelu_new", LanguageActivation::GeluTanhInSteps},
      {"gelu_fast", LanguageActivation::GeluTanhInSteps},
      {"gelu_pytorch_tanh", LanguageActivation::GeluTanh},
      {"relu", LanguageActivation::Relu},
      {"relu2", LanguageActivation::SquaredRelu},
      {"swiglu", LanguageActivation::Silu},
      {"swigluoai", LanguageActivation::Silu},
      {"quick_gelu", LanguageActivation::Silu},
      {"gelu_python", LanguageActivation::Gelu},
      {"gelu_10", LanguageActivation::Gelu},
      {"geglu", LanguageActivation::Gelu},
      {"gelu_tanh", LanguageActivation::GeluTanh},
      {"gelu_python_tanh", LanguageActivation::GeluTanh},
      {"gelu_accurate", LanguageActivation::GeluTanhInSteps},
      {"xielu", LanguageActivation::GeluTanhInSteps},
      {"relu_squared", LanguageActivation::SquaredRelu},
  }};
  const std::string name = config.text_or(key, usual);
  for (const auto& [known, activation] : kKnown) {
    if (name == known) return activation;
  }
  config.fail(key, "\"" + name.substr(0, kMostShown) + "\"",
              "silu, gelu, gelu_new, gelu_pytorch_tanh, relu or relu2");
}

}  // namespace tracecast::language
