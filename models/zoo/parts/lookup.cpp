#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/loaders/known_names.hpp"
#include "models/zoo/parts/configured.hpp"
#include "models/zoo/parts/families.hpp"
#include "models/zoo/parts/network_word.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/families.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMostSamples = 1 << 24;
constexpr std::int64_t kMostClasses = 1 << 24;
constexpr std::int64_t kMostPixels = 1 << 16;
constexpr std::int64_t kMostTokens = 1 << 20;

NetworkGraph build_at(const ZooEntry& entry, BuildOptions options, std::int64_t image_size) {
  options.image_size = image_size;
  options.classes = options.classes.value_or(entry.classes);
  return entry.build(options);
}

NetworkGraph build_sequence(const ZooEntry& entry, BuildOptions options) {
  options.seq_len = options.seq_len.value_or(entry.seq_len);
  const std::int64_t most = entry.most_tokens > 0 ? entry.most_tokens : kMostTokens;
  if (*options.seq_len < 1 || *options.seq_len > most) {
    throw InputError("network " + std::string(entry.name),
                     std::to_string(*options.seq_len) + " tokens", "1 to " + std::to_string(most));
  }
  return entry.build(options);
}

NetworkGraph build_image(const ZooEntry& entry, const BuildOptions& options) {
  const std::string where = "network " + std::string(entry.name);
  const std::int64_t image_size = options.image_size.value_or(entry.image_size);
  const std::string size_text = "image size " + std::to_string(image_size);
  if (image_size < 1 || image_size > kMostPixels) {
    throw InputError(where, size_text, "1 to " + std::to_string(kMostPixels));
  }
  try {
    return build_at(entry, options, image_size);
  } catch (const InputError&) {
    const std::int64_t least = smallest_image_size(entry, options);
    if (image_size >= least) throw;  // something else is wrong, and says so itself
    throw InputError(where, size_text,
                     std::to_string(least) + " or more: below it a window no longer fits");
  }
}

/// A layer follows from each hop, so their number is the network's.
void check_fan_out(const ZooEntry& entry, const std::vector<std::int64_t>& fan_out) {
  constexpr std::int64_t kMostDrawn = 1000;
  const auto is_drawn = [](std::int64_t n) { return n >= 1 && n <= kMostDrawn; };
  if (fan_out.size() == entry.fan_out.size() && std::ranges::all_of(fan_out, is_drawn)) return;
  std::string text;
  for (const std::int64_t n : fan_out) text += (text.empty() ? "" : ",") + std::to_string(n);
  throw InputError("network " + std::string(entry.name), "fan-out " + text,
                   entry.fan_out.empty()
                       ? "none: it samples no graph"
                       : std::to_string(entry.fan_out.size()) + " hops of 1 to 1000 neighbours");
}

/// Throws InputError with what may be meant.
[[noreturn]] void refuse_name(std::string_view name) {
  refuse_other_file(name);
  std::vector<CatalogueEntry> entries;
  std::vector<std::string> spellings;
  for (const ZooEntry& known : zoo()) {
    CatalogueEntry& added = entries.emplace_back(
        CatalogueEntry{std::string(known.name),
                       std::vector<std::string>(known.aliases.begin(), known.aliases.end())});
    for (std::string& spelling : spellings_of(known)) added.others.push_back(std::move(spelling));
    spellings.push_back(added.name);
    spellings.insert(spellings.end(), added.others.begin(), added.others.end());
  }
  throw InputError("network", "'" + std::string(name) + "'",
                   describe_entries(name, entries, spellings, "tracecast networks"));
}

}  // namespace

std::span<const ZooEntry> families() {
  static const std::vector<ZooEntry> all = zoo_builders::all_networks();
  return all;
}

std::span<const ZooEntry> zoo() {
  static const std::vector<ZooEntry> sorted = [] {
    std::vector<ZooEntry> all(families().begin(), families().end());
    for (ZooEntry& entry : zoo_builders::configured_networks()) all.push_back(std::move(entry));
    std::ranges::sort(all, {}, &ZooEntry::name);
    return all;
  }();
  return sorted;
}

const ZooEntry* find_network(std::string_view name) {
  const std::optional<NetworkWord> word = read_network_word(name);
  return word ? word->entry : nullptr;
}

std::int64_t smallest_image_size(const ZooEntry& entry, const BuildOptions& options) {
  // Windows shrink images monotonically: bisect between a size that fails and one that works.
  std::int64_t too_small = 0, enough = entry.image_size;
  while (enough - too_small > 1) {
    const std::int64_t middle = too_small + (enough - too_small) / 2;
    try {
      (void)build_at(entry, options, middle);
      enough = middle;
    } catch (const InputError&) {
      too_small = middle;
    }
  }
  return enough;
}

NetworkGraph build_network(std::string_view name, const BuildOptions& options) {
  const std::optional<NetworkWord> word = read_network_word(name);
  if (!word) refuse_name(name);
  const ZooEntry* entry = word->entry;
  const std::string where = "network " + std::string(entry->name);
  if (options.batch < 1 || options.batch > kMostSamples) {
    throw InputError(where, "batch " + std::to_string(options.batch),
                     "1 to " + std::to_string(kMostSamples));
  }
  const std::int64_t classes = options.classes.value_or(entry->classes);
  if (classes < 1 || classes > kMostClasses) {
    throw InputError(where, std::to_string(classes) + " classes",
                     "1 to " + std::to_string(kMostClasses));
  }
  BuildOptions sized = options;
  sized.classes = classes;
  if (!sized.fan_out.empty()) check_fan_out(*entry, sized.fan_out);
  if (sized.fan_out.empty()) sized.fan_out = entry->fan_out;
  if (!sized.seq_len) sized.seq_len = word->seq_len;
  if (!sized.image_size) sized.image_size = word->image_size;
  NetworkGraph graph = entry->seq_len > 0      ? build_sequence(*entry, sized)
                       : entry->image_size > 0 ? build_image(*entry, sized)
                                               : entry->build(sized);
  graph.name = entry->name;
  return graph;
}

}  // namespace tracecast
