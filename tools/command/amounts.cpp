#include "tools/command/amounts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kLetters = "kmgt";

/// What a unit stands for: 1024 for "k" and "kib", 1000 for "kb", 1 for "" and "b".
std::optional<double> unit_of(const std::string& unit) {
  if (unit.empty() || unit == "b") return 1;
  const std::size_t power = kLetters.find(unit.front());
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(unit).substr(1);
  const auto exponent = static_cast<double>(power + 1);
  if (rest.empty() || rest == "i" || rest == "ib") return std::pow(1024.0, exponent);
  return rest == "b" ? std::optional(std::pow(1000.0, exponent)) : std::nullopt;
}

std::optional<double> bytes_of(std::string_view text) {
  const std::size_t last = text.find_last_of("0123456789.");
  if (last == std::string_view::npos) return std::nullopt;
  const auto number = parse_double(text.substr(0, last + 1));
  std::string_view unit = text.substr(last + 1);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto factor = unit_of(to_lower(unit));
  if (!number || !factor) return std::nullopt;
  return std::round(*number * *factor);
}

/// "1e15", "0".
std::string limit_text(double bytes) {
  std::string text = fmt::format("{:g}", bytes);
  std::erase(text, '+');
  return text;
}

}  // namespace

Bytes parse_size(const char* flag, std::string_view text, const SizeRange& range) {
  const auto bytes = bytes_of(text);
  if (bytes && *bytes >= range.least && *bytes <= range.most) return Bytes(*bytes);
  throw InputError(flag, "\"" + std::string(text) + "\"",
                   limit_text(range.least) + " to " + limit_text(range.most) +
                       " bytes, such as 4096, 64KiB, 1M or 1.5GB");
}

std::vector<Bytes> parse_sizes(const char* flag, const std::vector<std::string>& texts,
                               const SizeRange& range) {
  std::vector<Bytes> sizes;
  for (const std::string& text : texts) sizes.push_back(parse_size(flag, text, range));
  return sizes;
}

Seconds parse_time(const char* flag, std::string_view text) {
  constexpr double kHour = 3600, kDay = 24 * kHour, kMost = 20 * 365 * kDay;
  const auto fail = [&] {
    throw InputError(flag, '"' + std::string(text) + '"', "a time with its unit: 36h, 30d or 8w");
  };
  if (text.size() < 2) fail();
  const auto value = parse_double(text.substr(0, text.size() - 1));
  const double unit = text.back() == 'h'   ? kHour
                      : text.back() == 'd' ? kDay
                      : text.back() == 'w' ? 7 * kDay
                                           : 0;
  if (!value || *value <= 0 || unit == 0 || *value * unit > kMost) fail();
  return Seconds(*value * unit);
}

std::string size_text(Bytes size) {
  constexpr std::array<const char*, 5> kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  double value = size.in_bytes();
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  const bool is_whole = value == std::floor(value);
  return (is_whole ? fmt::format("{:.0f}", value) : three_digits(value)) + kUnits[unit];
}

std::string short_count(double value) {
  constexpr std::array<const char*, 6> kUnits = {"", " k", " M", " G", " T", " P"};
  if (value < 999.5) return fmt::format("{:.0f}", value);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return three_digits(std::max(value, 1.0)) + kUnits[unit];
}

}  // namespace tracecast
