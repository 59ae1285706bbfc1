#include "sim/base/families.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/text.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMostShown = 10;
constexpr std::size_t kLongest = 64;  ///< what is longer names no family

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Letters and digits of `text`, lower case; `is_cut[i]`: a part ends before letter i. One more for
/// the end.
struct Parts {
  std::string letters;
  std::vector<bool> is_cut{true};
};
Parts parts_of(std::string_view text) {
  Parts parts;
  for (const char c : to_lower(text.substr(0, kLongest))) {
    if (std::string_view("-_. ").find(c) != std::string_view::npos) {
      parts.is_cut.back() = true;
      continue;
    }
    if (!parts.letters.empty() && is_digit(parts.letters.back()) != is_digit(c))
      parts.is_cut.back() = true;
    parts.letters += c;
    parts.is_cut.push_back(false);
  }
  parts.is_cut.back() = true;
  return parts;
}

}  // namespace

std::vector<std::string> find_family(std::string_view word,
                                     std::span<const std::string> candidates) {
  const std::string wanted = parts_of(word).letters;
  std::vector<std::string> members, in_parts, within;
  if (wanted.size() < 2) return members;
  bool has_whole = false;
  for (const std::string& candidate : candidates) {
    const Parts parts = parts_of(candidate);
    bool begins_part = false, occurs = false;
    for (std::size_t at = 0; (at = parts.letters.find(wanted, at)) != std::string::npos; ++at) {
      if (wanted.size() == 2 && !parts.is_cut[at]) continue;
      occurs = true;
      begins_part = begins_part || parts.is_cut[at];
      has_whole = has_whole || parts.is_cut[at + wanted.size()];
    }
    if (occurs) {
      const bool begins = parts.letters.starts_with(wanted);
      (begins ? members : begins_part ? in_parts : within).push_back(candidate);
    }
  }
  if (!has_whole) return {};
  members.insert(members.end(), in_parts.begin(), in_parts.end());
  members.insert(members.end(), within.begin(), within.end());
  return members;
}

std::string describe_entries(std::string_view word, std::span<const CatalogueEntry> entries,
                             std::span<const std::string> spellings, std::string_view listing) {
  const std::string all = " (all: `" + std::string(listing) + "`";
  std::vector<std::string> names, by_others;
  for (const CatalogueEntry& entry : entries) {
    names.push_back(entry.name);
    if (!find_family(word, entry.others).empty()) by_others.push_back(entry.name);
  }
  std::vector<std::string> family = find_family(word, names);
  if (family.empty()) family = std::move(by_others);
  if (family.empty()) {
    const std::optional<std::string> nearest = find_nearest_word(word, spellings);
    return "one of " + std::to_string(names.size()) + " known names" + all +
           (nearest ? "; nearest: " + *nearest + ")" : ")");
  }
  if (family.size() > kMostShown) {  // plain names are short
    std::stable_sort(family.begin(), family.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
  }
  std::string text = "one of ";
  for (std::size_t i = 0; i < std::min(family.size(), kMostShown); ++i)
    text += (i > 0 ? ", " : "") + family[i];
  if (family.size() > kMostShown)
    text += " and " + std::to_string(family.size() - kMostShown) + " more";
  return text + all + ")";
}

}  // namespace tracecast
