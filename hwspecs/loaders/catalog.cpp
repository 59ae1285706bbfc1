#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hwspecs/disk_spec.hpp"
#include "hwspecs/link_spec.hpp"
#include "hwspecs/loaders/cpu_loader.hpp"
#include "hwspecs/loaders/folder_files.hpp"
#include "hwspecs/loaders/gpu_base.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/loaders/known_names.hpp"
#include "hwspecs/machine_spec.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/families.hpp"
#include "sim/base/once.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> cpu_specs();
std::span<const EmbeddedFile> disk_specs();
std::span<const EmbeddedFile> gpu_specs();
std::span<const EmbeddedFile> link_specs();
std::span<const EmbeddedFile> machine_specs();
}  // namespace embedded
namespace {

/// What is particular to one kind of hardware. kMakers: words that names begin with and people
/// leave out or add.
template <class Spec>
struct Kind;
template <>
struct Kind<GpuSpec> {
  static constexpr std::string_view kPlace = "gpu", kNoun = "GPU";
  static constexpr std::string_view kListing = "tracecast gpus";
  static constexpr std::array<std::string_view, 5> kMakers = {"nvidia", "tesla", "geforce",
                                                              "quadro", "grid"};
  static constexpr auto files = embedded::gpu_specs;
};
template <>
struct Kind<CpuSpec> {
  static constexpr std::string_view kPlace = "cpu", kNoun = "CPU";
  static constexpr std::string_view kListing = "tracecast hardware cpus";
  static constexpr std::array<std::string_view, 0> kMakers = {};
  static constexpr auto files = embedded::cpu_specs;
  static constexpr auto load = load_cpu_spec;
};
template <>
struct Kind<DiskSpec> {
  static constexpr std::string_view kPlace = "disk", kNoun = "disk";
  static constexpr std::string_view kListing = "tracecast hardware disks";
  static constexpr std::array<std::string_view, 0> kMakers = {};
  static constexpr auto files = embedded::disk_specs;
  static constexpr auto load = load_disk_spec;
};
template <>
struct Kind<LinkSpec> {
  static constexpr std::string_view kPlace = "link", kNoun = "link";
  static constexpr std::string_view kListing = "tracecast hardware links";
  static constexpr std::array<std::string_view, 0> kMakers = {};
  static constexpr auto files = embedded::link_specs;
  static constexpr auto load = load_link_spec;
};
template <>
struct Kind<MachineSpec> {
  static constexpr std::string_view kPlace = "machine", kNoun = "machine";
  static constexpr std::string_view kListing = "tracecast hardware machines";
  static constexpr std::array<std::string_view, 0> kMakers = {};
  static constexpr auto files = embedded::machine_specs;
  static constexpr auto load = load_machine_spec;
};

/// Spellings that mean the same become the same text.
std::string normalize(std::string_view word) {
  std::string text = to_lower(word);
  for (char& c : text) {
    if (c == '-' || c == ' ' || c == '.') c = '_';
  }
  return text;
}

/// The same without what stands between letters and digits: "RTX 4090", "rtx-4090" and "rtx4090"
/// are one word.
std::string bare(std::string_view word) {
  std::string text = normalize(word);
  std::erase_if(text, [](char c) { return c == '_' || c == '(' || c == ')'; });
  return text;
}

/// The word, then what follows each of the makers that it begins with: "nvidia_tesla_t4",
/// "tesla_t4", "t4".
std::vector<std::string> without_makers(std::string word,
                                        std::span<const std::string_view> makers) {
  std::vector<std::string> words{std::move(word)};
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view maker : makers) {
      const std::string& last = words.back();
      if (!last.starts_with(maker) || last.size() <= maker.size() + 1 || last[maker.size()] != '_')
        continue;
      words.push_back(last.substr(maker.size() + 1));
      found = true;
      break;
    }
  }
  return words;
}

/// Only GPUs have specs that build on others.
template <class Spec>
Spec load_spec(std::string_view text, const std::string& where, const FindSpecText& find) {
  if constexpr (std::is_same_v<Spec, GpuSpec>) {
    return load_gpu_spec(text, where, find);
  } else {
    return Kind<Spec>::load(text, where);
  }
}

/// What a spec file calls its hardware.
struct Spellings {
  std::string id, name;
  std::vector<std::string> aliases;
};

/// Reads the names without parsing the rest: lines that begin with `id: "`, `name: "` or `alias:
/// "`. Embedded files are written so, and a test compares with the full reading.
Spellings scan_spellings(std::string_view text) {
  Spellings found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || (line[0] != 'i' && line[0] != 'n' && line[0] != 'a')) continue;
    const auto value_of = [line](std::string_view key) -> std::optional<std::string> {
      if (!line.starts_with(key)) return std::nullopt;
      const std::size_t end = line.rfind('"');
      if (end < key.size()) return std::nullopt;
      return std::string(line.substr(key.size(), end - key.size()));
    };
    if (const auto id = value_of("id: \"")) found.id = *id;
    if (const auto name = value_of("name: \"")) found.name = *name;
    if (const auto alias = value_of("alias: \"")) found.aliases.push_back(*alias);
  }
  return found;
}

/// The same of a file that people write, in whatever lines. Throws InputError when the file cannot
/// be loaded.
template <class Spec>
Spellings names_of(std::string_view text, const std::string& where) {
  if constexpr (std::is_same_v<Spec, GpuSpec>) {
    GpuNames names = read_gpu_names(text, where);
    if (names.id.empty()) (void)load_gpu_spec(text, where);  // which says so
    return {std::move(names.id), std::move(names.name), std::move(names.aliases)};
  } else {
    Spec spec = Kind<Spec>::load(text, where);
    return {std::move(spec.id), std::move(spec.name), std::move(spec.aliases)};
  }
}

/// What specs in the binary build on, whatever a folder replaces.
template <class Spec>
std::optional<SpecText> find_embedded(std::string_view id) {
  for (const EmbeddedFile& file : Kind<Spec>::files()) {
    if (scan_spellings(file.content).id == id)
      return SpecText{file.content, std::string(file.path)};
  }
  return std::nullopt;
}

/// What is known of specs that are not read yet, whatever their kind: compiled once, not once a
/// kind.
struct CatalogIndex {
  struct Entry {
    Spellings spellings;
    std::string_view text;
    std::string where;
    std::shared_ptr<const std::string> file{};  ///< holds `text`; null: it is in the binary
    bool is_parsed = false;
  };
  std::vector<Entry> entries;                ///< sorted by id
  std::map<std::string, std::size_t> words;  ///< normalized spelling to entry
  /// Bare spelling to entry; nothing where it would name several ("titanx_p" is not "titanxp").
  std::map<std::string, std::optional<std::size_t>> bares;

  void sort_entries() {
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.spellings.id < b.spellings.id; });
  }

  void scan(std::span<const EmbeddedFile> files) {
    for (const EmbeddedFile& file : files) {
      entries.push_back({scan_spellings(file.content), file.content, std::string(file.path)});
    }
    sort_entries();
    index();
  }

  /// Throws InputError when one spelling names two specs.
  void index() {
    words.clear();
    bares.clear();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Spellings& s = entries[i].spellings;
      std::vector<std::string> all = s.aliases;
      all.push_back(s.id);
      all.push_back(s.name);
      for (const std::string& word : all) {
        const auto [same, is_new] = bares.emplace(bare(word), i);
        if (!is_new && same->second != i) same->second.reset();
        const auto [it, added] = words.emplace(normalize(word), i);
        if (added || it->second == i) continue;
        throw InputError(
            entries[i].where,
            fmt::format("\"{}\", which names {} already", word, entries[it->second].spellings.id),
            "a spelling of this one alone");
      }
    }
  }

  /// Every word that find() understands: ids, names, aliases, and the prefixes that mean one id.
  /// Those that begin as `word` does come first, so that of equally near words they are suggested.
  [[nodiscard]] std::vector<std::string> words_like(std::string_view word) const {
    std::map<std::string, int> prefixes;
    for (const Entry& entry : entries) {
      const std::string& id = entry.spellings.id;
      for (std::size_t end = id.find('_'); end != id.npos; end = id.find('_', end + 1)) {
        ++prefixes[id.substr(0, end)];
      }
    }
    std::vector<std::string> known;
    for (const auto& [spelling, entry] : words) known.push_back(spelling);
    for (const auto& [prefix, ids] : prefixes) {
      if (ids == 1 && !words.contains(prefix)) known.push_back(prefix);
    }
    const auto in_common = [word](const std::string& other) {
      const auto length = static_cast<std::ptrdiff_t>(std::min(word.size(), other.size()));
      return std::mismatch(word.begin(), word.begin() + length, other.begin()).first - word.begin();
    };
    std::stable_sort(known.begin(), known.end(),
                     [&](const auto& a, const auto& b) { return in_common(a) > in_common(b); });
    return known;
  }

  /// What the user may have meant by a word that names no spec.
  [[nodiscard]] std::string choices(std::string_view word, std::string_view listing) const {
    std::vector<CatalogueEntry> known;
    for (const Entry& entry : entries) {
      known.push_back({entry.spellings.id, entry.spellings.aliases});
      known.back().others.push_back(entry.spellings.name);
    }
    return describe_entries(word, known, words_like(word), listing);
  }

  [[nodiscard]] std::optional<SpecText> find_text(std::string_view id) const {
    const auto at = place_of(id);
    if (!at) return std::nullopt;
    return SpecText{entries[*at].text, entries[*at].where};
  }

  /// Of the entry with this id.
  [[nodiscard]] std::optional<std::size_t> place_of(std::string_view id) const {
    const auto at = std::lower_bound(
        entries.begin(), entries.end(), id,
        [](const Entry& entry, std::string_view wanted) { return entry.spellings.id < wanted; });
    if (at == entries.end() || at->spellings.id != id) return std::nullopt;
    return static_cast<std::size_t>(at - entries.begin());
  }

  /// Of the entry that `word` means; nothing: none, or several.
  [[nodiscard]] std::optional<std::size_t> place_called(
      std::string_view word, std::span<const std::string_view> makers) const {
    const std::vector<std::string> spellings = without_makers(normalize(word), makers);
    for (const std::string& spelling : spellings) {
      if (const auto it = words.find(spelling); it != words.end()) return it->second;
      if (const auto it = bares.find(bare(spelling)); it != bares.end() && it->second)
        return it->second;
    }
    const std::string& normal = spellings.back();
    std::vector<std::size_t> longer;  // ids of which the word is the beginning
    for (std::size_t i = 0; i < entries.size() && !normal.empty(); ++i) {
      if (entries[i].spellings.id.starts_with(normal + "_")) longer.push_back(i);
    }
    return longer.size() == 1 ? std::optional(longer.front()) : std::nullopt;
  }

  /// Throws InputError: the word names nothing.
  [[noreturn]] void refuse(std::string_view word, std::span<const std::string_view> makers,
                           std::string_view place, std::string_view noun,
                           std::string_view listing) const {
    if (noun == Kind<GpuSpec>::kNoun) {
      if (const std::string kind = find_unknown_accelerator(word); !kind.empty())
        throw InputError(
            place, fmt::format("{} \"{}\"", noun, word),
            fmt::format("a GPU of NVIDIA's (all: `{}`): {} are not known yet", listing, kind));
    }
    throw InputError(place, fmt::format("{} \"{}\"", noun, word),
                     choices(without_makers(normalize(word), makers).back(), listing));
  }
};

}  // namespace

template <class Spec>
struct Catalog<Spec>::State : CatalogIndex {
  std::vector<Spec> specs;                         ///< one per entry; blank until parsed
  std::vector<std::function<Spec(Spec)>> changes;  ///< of what is still to be parsed
  std::mutex mutex;                                ///< find() on one catalog from several threads
  Once scanned;

  /// Those in the binary, unless there are entries already; every door of the catalog begins with
  /// it.
  void scan_embedded() {
    scanned([this] {
      if (!entries.empty()) return;
      scan(Kind<Spec>::files());
      specs.resize(entries.size());
    });
  }

  const Spec& get(std::size_t i) {
    const std::lock_guard lock(mutex);
    if (!entries[i].is_parsed) {
      specs[i] = load_spec<Spec>(entries[i].text, entries[i].where, [&](std::string_view id) {
        return entries[i].file ? find_text(id) : find_embedded<Spec>(id);
      });
      entries[i].is_parsed = true;
      for (const auto& change : changes) specs[i] = change(std::move(specs[i]));
    }
    return specs[i];
  }
};

template <class Spec>
Catalog<Spec>::Catalog(std::shared_ptr<State> state) : state_(std::move(state)) {}

template <class Spec>
Catalog<Spec> Catalog<Spec>::embedded() {
  return Catalog(std::make_shared<State>());
}

template <class Spec>
void Catalog<Spec>::add_folder(const std::filesystem::path& folder) {
  using Entry = typename State::Entry;
  auto next = std::make_shared<State>();
  std::map<std::string, std::string> seen;
  for (FolderFile& file : read_folder_files(folder)) {
    Entry entry{{}, {}, std::move(file.where)};
    entry.file = std::move(file.text);
    entry.text = *entry.file;
    entry.spellings = names_of<Spec>(entry.text, entry.where);
    const std::string& id = entry.spellings.id;
    const auto [same, added] = seen.emplace(id, entry.where);
    if (!added) {
      throw InputError(entry.where, fmt::format("id \"{}\", which {} has", id, same->second),
                       "each id once in a folder");
    }
    next->entries.push_back(std::move(entry));
  }
  const std::size_t num_added = next->entries.size();
  const std::shared_ptr<State> before = state_;  // outlives the lock
  before->scan_embedded();
  const std::lock_guard lock(before->mutex);
  next->changes = before->changes;
  for (const Entry& entry : state_->entries) {
    if (!seen.contains(entry.spellings.id)) next->entries.push_back(entry);
  }
  // Files in name order first: the first one that is wrong is the one to tell of.
  std::vector<std::string> added_ids;
  for (std::size_t i = 0; i < num_added; ++i) added_ids.push_back(next->entries[i].spellings.id);
  next->sort_entries();
  next->specs.resize(next->entries.size());
  for (const std::string& id : added_ids) next->get(*next->place_of(id));
  for (std::size_t i = 0; i < state_->entries.size(); ++i) {
    const Entry& entry = state_->entries[i];
    if (seen.contains(entry.spellings.id) || !entry.is_parsed) continue;
    const std::size_t place = *next->place_of(entry.spellings.id);
    next->specs[place] = state_->specs[i];
  }
  next->index();
  state_ = std::move(next);
}

template <class Spec>
void Catalog<Spec>::change_all(std::function<Spec(Spec)> change) {
  auto next = std::make_shared<State>();
  const std::shared_ptr<State> before = state_;  // outlives the lock
  before->scan_embedded();
  const std::lock_guard lock(before->mutex);
  next->entries = before->entries;
  next->specs = before->specs;
  next->words = before->words;
  next->bares = before->bares;
  next->changes = before->changes;
  for (std::size_t i = 0; i < next->entries.size(); ++i) {
    if (next->entries[i].is_parsed) next->specs[i] = change(std::move(next->specs[i]));
  }
  next->changes.push_back(std::move(change));
  state_ = std::move(next);
}

template <class Spec>
const Spec& Catalog<Spec>::find(std::string_view word) const {
  using K = Kind<Spec>;
  state_->scan_embedded();
  if (const auto place = state_->place_called(word, K::kMakers)) return state_->get(*place);
  state_->refuse(word, K::kMakers, K::kPlace, K::kNoun, K::kListing);
}

template <class Spec>
std::span<const Spec> Catalog<Spec>::all() const {
  state_->scan_embedded();
  for (std::size_t i = 0; i < state_->entries.size(); ++i) state_->get(i);
  return state_->specs;
}

template class Catalog<GpuSpec>;
template class Catalog<CpuSpec>;
template class Catalog<DiskSpec>;
template class Catalog<LinkSpec>;
template class Catalog<MachineSpec>;

}  // namespace tracecast
