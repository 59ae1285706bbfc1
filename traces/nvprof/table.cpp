#include "traces/nvprof/table.hpp"

#include <cmath>

#include "sim/base/text.hpp"

namespace tracecast::traces::nvprof {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <class UnitOf>
std::optional<std::int64_t> scaled(std::string_view text, std::string_view unit, UnitOf unit_of) {
  text = trimmed(text);
  std::size_t end = 0;
  while (end < text.size() && ((text[end] >= '0' && text[end] <= '9') || text[end] == '.')) ++end;
  const auto factor = unit_of(end < text.size() ? text.substr(end) : unit);
  const auto value = parse_double(text.substr(0, end));
  if (!factor || !value || *value < 0 || *value * *factor > 2.3e18) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(*value * *factor));
}

}  // namespace

std::vector<std::string> split_csv(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

std::vector<std::string> split_text(std::string_view line, std::size_t count) {
  std::vector<std::string> fields;
  line = trimmed(line);
  while (!line.empty()) {
    const std::size_t end = fields.size() + 1 < count ? line.find("  ") : std::string_view::npos;
    fields.emplace_back(line.substr(0, end));
    line = end == std::string_view::npos ? std::string_view{} : trimmed(line.substr(end));
  }
  return fields;
}

std::optional<double> time_unit_ns(std::string_view unit) {
  if (unit == "s") return 1e9;
  if (unit == "ms") return 1e6;
  if (unit == "us") return 1e3;
  if (unit == "ns") return 1.0;
  return std::nullopt;
}

std::optional<double> size_unit(std::string_view unit) {
  if (unit == "B") return 1.0;
  if (unit == "KB") return 0x1.0p10;
  if (unit == "MB") return 0x1.0p20;
  if (unit == "GB") return 0x1.0p30;
  return std::nullopt;
}

std::optional<std::int64_t> time_ns(std::string_view text, std::string_view unit) {
  return scaled(text, unit, time_unit_ns);
}

std::optional<std::int64_t> bytes(std::string_view text, std::string_view unit) {
  return scaled(text, unit, size_unit);
}

}  // namespace tracecast::traces::nvprof
