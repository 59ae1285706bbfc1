#include "models/zoo/parts/configured.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "models/encoder/config.hpp"
#include "models/language/config.hpp"
#include "models/language/graph.hpp"
#include "models/language/layout.hpp"
#include "models/zoo/parts/language.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> network_configs();
}
namespace zoo_builders {
namespace {

using Json = nlohmann::json;

std::string_view name_of(const EmbeddedFile& file) {
  const std::size_t from = file.path.rfind('/') + 1;
  return file.path.substr(from, file.path.rfind('.') - from);
}

/// The text for as long as the program runs: entries hold views.
std::string_view keep(std::string text) {
  static std::deque<std::string> kept;
  return kept.emplace_back(std::move(text));
}

std::string_view kept_text(const Json& about, const char* key) {
  return keep(about.at(key).get<std::string>());
}

void add_language(const EmbeddedFile& file, ZooEntry& entry) {
  const auto network =
      std::make_shared<const LanguageNetwork>(read_config_json(file.content, file.path));
  entry.seq_len = usual_tokens(*network);
  entry.most_tokens = learned_positions(*network);
  entry.language = [network] { return *network; };
  entry.build = [network](const BuildOptions& options) {
    return build_described(*network, options);
  };
  try {
    entry.transformer = shardable(*network, file.path).layout;
  } catch (const InputError&) {  // its layers cannot be shared among GPUs
  }
}

void add_encoder(const EmbeddedFile& file, ZooEntry& entry) {
  entry.code = keep(encoder_family(file.content));
  entry.build = [file](const BuildOptions& options) {
    return read_encoder_config(file.content, file.path, options).graph;
  };
}

ZooEntry entry_of(const EmbeddedFile& file) {
  const Json about = Json::parse(file.content).at("tracecast");
  const std::string_view hub = kept_text(about, "hub");
  ZooEntry entry{.name = name_of(file),
                 .aliases = {hub},
                 .title = kept_text(about, "title"),
                 .source = keep("config.json of " + std::string(hub) + " at huggingface.co"),
                 .image_size = about.value("image_size", std::int64_t{0}),
                 .seq_len = about.value("seq_len", std::int64_t{0}),
                 .classes = 1,
                 .is_configured = true};
  if (about.contains("called")) {
    for (const Json& name : about.at("called")) {
      entry.aliases.push_back(keep(name.get<std::string>()));
    }
  }
  if (about.contains("parameters")) {
    const Json& published = about.at("parameters");
    entry.parameters = Published{.value = published.at("value").get<double>(),
                                 .unit = published.at("unit").get<double>(),
                                 .source = kept_text(published, "source")};
  }
  if (encoder_family(file.content).empty()) {
    add_language(file, entry);
  } else {
    add_encoder(file, entry);
  }
  return entry;
}

}  // namespace

const ZooEntry& configured_network(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string_view, ZooEntry> known;
  const std::lock_guard lock(mutex);
  if (const auto at = known.find(name); at != known.end()) return at->second;
  const auto files = embedded::network_configs();
  const auto file = std::ranges::find(files, name, name_of);
  TRACECAST_CHECK(file != files.end(), "the name is one of configured_names()");
  return known.emplace(name_of(*file), entry_of(*file)).first->second;
}

std::vector<ZooEntry> configured_networks() {
  std::vector<ZooEntry> entries;
  for (const std::string_view name : configured_names()) {
    entries.push_back(configured_network(name));
  }
  return entries;
}

std::vector<std::string_view> configured_names() {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : embedded::network_configs()) names.push_back(name_of(file));
  return names;
}

}  // namespace zoo_builders
}  // namespace tracecast
