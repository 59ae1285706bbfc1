#include "models/zoo/parts/network_word.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/loaders/known_names.hpp"
#include "models/zoo/parts/configured.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Lower case, without what stands between letters and digits: "ResNet-50_v1.5" and "resnet50_v1.5"
/// are one name. Between two digits any of it is a point: "regnet_x_1_6gf" is 1.6, not 16.
std::string plain(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string text;
  bool is_apart = false;
  for (const char c : to_lower(name)) {
    if (c == '-' || c == '_' || c == ' ') {
      is_apart = true;
      continue;
    }
    if (is_apart && !text.empty() && is_digit(text.back()) && is_digit(c)) text += '.';
    is_apart = false;
    text += c;
  }
  return text;
}
/// Letters and digits alone; what stands before a '/' stays apart.
std::string without_points(std::string text) {
  std::erase_if(
      text, [](char c) { return c != '/' && std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return text;
}

const ZooEntry* find_among(std::span<const ZooEntry> entries, const std::string& wanted) {
  for (const ZooEntry& entry : entries) {
    if (plain(entry.name) == wanted) return &entry;
    for (const std::string_view alias : entry.aliases) {
      if (plain(alias) == wanted) return &entry;
    }
  }
  return nullptr;
}

/// An id or alias of a family in C++, or the id of a file of models/zoo/config; no file is read for
/// the first.
const ZooEntry* find_id(std::string_view name) {
  const std::string wanted = plain(name);
  if (const ZooEntry* entry = find_among(families(), wanted)) return entry;
  const auto is_wanted = [&](std::string_view id) { return plain(id) == wanted; };
  static const std::vector<std::string_view> ids = zoo_builders::configured_names();
  const auto id = std::ranges::find_if(ids, is_wanted);
  return id != ids.end() ? &zoo_builders::configured_network(*id) : nullptr;
}

/// All spellings: of some entries of the zoo, and of the catalogue beside it.
class Spellings {
 public:
  explicit Spellings(std::span<const ZooEntry> entries) {
    for (const ZooEntry& entry : entries) {
      add_pointless(entry.name, {.entry = &entry});
      for (const std::string_view alias : entry.aliases) add_pointless(alias, {.entry = &entry});
    }
    for (const NetworkSpelling& row : known_names().networks) {
      const NetworkWord word{.entry = find_id(row.network), .image_size = row.image_size};
      TRACECAST_CHECK(word.entry != nullptr, "hwspecs/name names networks of the zoo");
      by_name_.emplace(plain(row.called), word);
      add_pointless(row.called, word);
    }
  }
  [[nodiscard]] std::optional<NetworkWord> find(std::string_view name) const {
    const std::string wanted = plain(name);
    if (const auto known = by_name_.find(wanted); known != by_name_.end()) return known->second;
    const auto known = pointless_.find(without_points(wanted));
    return known != pointless_.end() ? known->second : std::nullopt;
  }

 private:
  void add_pointless(std::string_view name, const NetworkWord& word) {
    const auto [known, is_new] = pointless_.emplace(without_points(plain(name)), word);
    if (!is_new && known->second &&
        (known->second->entry->name != word.entry->name ||
         known->second->image_size != word.image_size))
      known->second
          .reset();  // "regnet_x_16gf" and "regnet_x_1.6gf": neither is meant by a third spelling
  }

  std::map<std::string, NetworkWord> by_name_;
  std::map<std::string, std::optional<NetworkWord>> pointless_;
};

/// Which entries a name may mean: reading all files of models/zoo/config takes longer than most
/// predictions, so the families in C++ come first.
enum class Among { Families, All };

std::optional<NetworkWord> read_word(std::string_view name, Among among);

std::optional<NetworkWord> find_spelling(std::string_view name, Among among) {
  if (const ZooEntry* entry = find_id(name)) return NetworkWord{.entry = entry};
  if (among == Among::Families) {
    static const Spellings of_families(families());
    return of_families.find(name);
  }
  if (const ZooEntry* entry = find_among(zoo(), plain(name))) return NetworkWord{.entry = entry};
  static const Spellings of_all(zoo());
  return of_all.find(name);
}

/// A name and the number behind its "_seq", if there is one: "bert_large_seq384".
std::optional<NetworkWord> read_sized(std::string_view name, Among among) {
  constexpr std::string_view kMark = "_seq";
  const std::size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return {};
  const auto length = parse_integer(name.substr(at + kMark.size()));
  if (!length || *length < 0 || name.substr(at + kMark.size()).starts_with('+')) return {};
  std::optional<NetworkWord> word = find_spelling(name.substr(0, at), among);
  if (!word || word->entry->seq_len == 0) return {};
  word->seq_len = *length;
  return word;
}

std::optional<NetworkWord> read_without_ending(std::string_view name, Among among) {
  std::string lower = to_lower(name);
  std::ranges::replace(lower, '_', '-');
  for (const KnownNames::Ending& ending : known_names().endings) {
    if (lower.size() <= ending.text.size() || !lower.ends_with(ending.text)) continue;
    std::optional<NetworkWord> word =
        read_word(name.substr(0, name.size() - ending.text.size()), among);
    if (word && word->stored.empty()) word->stored = ending.stored;
    if (word) return word;
  }
  return {};
}

std::optional<NetworkWord> read_behind_publisher(std::string_view name, Among among) {
  const std::size_t at = name.find('/');
  if (at == std::string_view::npos) return {};
  const std::string publisher = to_lower(name.substr(0, at));
  const std::vector<std::string>& known = known_names().publishers;
  if (std::ranges::find(known, publisher) == known.end()) return {};
  return read_word(name.substr(at + 1), among);
}

std::optional<NetworkWord> read_word(std::string_view name, Among among) {
  if (auto word = find_spelling(name, among)) return word;
  if (auto word = read_sized(name, among)) return word;
  if (auto word = read_behind_publisher(name, among)) return word;
  return read_without_ending(name, among);
}

}  // namespace

std::optional<NetworkWord> read_network_word(std::string_view name) {
  constexpr std::size_t kLongest = 200;  // no network is called by more
  if (name.empty() || name.size() > kLongest) return {};
  if (auto word = read_word(name, Among::Families)) return word;
  return read_word(name, Among::All);
}

std::vector<std::string> spellings_of(const ZooEntry& entry) {
  std::vector<std::string> spellings;
  for (const NetworkSpelling& row : known_names().networks) {
    if (find_id(row.network)->name == entry.name) spellings.push_back(row.called);
  }
  return spellings;
}

}  // namespace tracecast
