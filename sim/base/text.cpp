#include "sim/base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "sim/base/families.hpp"

namespace tracecast {
namespace {

/// No figure of any unit lies beyond, and neither do GEMMs of a few of them.
constexpr double kMostNumber = 1e30;

/// Words are compared up to here: what is longer is no typing error.
constexpr std::size_t kLongest = 64;

/// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::string> find_nearest_word(std::string_view word,
                                             std::span<const std::string> candidates) {
  const std::string wanted = to_lower(word.substr(0, kLongest));
  std::optional<std::string> nearest;
  std::size_t least = std::max<std::size_t>(1, wanted.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, to_lower(candidate).substr(0, kLongest));
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

namespace {

/// Names that do not continue another with an underscore: "pytorch", not "pytorch_2".
std::vector<std::string> without_variants(std::span<const std::string> names) {
  std::vector<std::string> stems;
  for (const std::string& name : names) {
    const bool continues = std::any_of(names.begin(), names.end(), [&](const std::string& other) {
      return name.size() > other.size() && name[other.size()] == '_' && name.starts_with(other);
    });
    if (!continues) stems.push_back(name);
  }
  return stems;
}

}  // namespace

std::string describe_choices(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kShortList = 30, kMostShown = 10;
  constexpr std::size_t kLongestText =
      260;  // an error shows 300 characters, the nearest name among them
  const auto list = [](std::span<const std::string> names) {
    std::string text = "one of ";
    for (std::size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
    return text;
  };
  std::string text = list(candidates);
  if (candidates.size() > kShortList || text.size() > kLongestText) {
    const std::vector<std::string> family = find_family(word, candidates);
    if (!family.empty() && family.size() <= kMostShown) return list(family);
    text = "one of " + std::to_string(candidates.size()) + " known names";
    const std::vector<std::string> stems = without_variants(candidates);
    const std::string all = list(stems);
    if (stems.size() <= kShortList && all.size() <= kLongestText) text = all + " or a variant";
  }
  const std::optional<std::string> nearest = find_nearest_word(word, candidates);
  if (nearest) text += " (nearest: " + *nearest + ")";
  return text;
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

std::optional<double> parse_double(std::string_view text) {
  const std::optional<double> value = parse_whole<double>(text);
  if (!value) return std::nullopt;
  const double size = std::abs(*value);
  return size == 0 || (size >= 1 / kMostNumber && size <= kMostNumber) ? value : std::nullopt;
}

std::optional<long long> parse_integer(std::string_view text) {
  return parse_whole<long long>(text);
}

std::string three_digits(double value) {
  if (!std::isfinite(value)) return "-";
  const double magnitude = std::abs(value);
  if (magnitude == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(magnitude)));
  const int decimals = std::clamp(2 - exponent, 0, 9);
  std::array<char, 352> digits{};  // DBL_MAX has 309 before the point
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed, decimals);
  return {digits.data(), end.ptr};
}

}  // namespace tracecast
