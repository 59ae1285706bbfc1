#include "hwspecs/software/software_version.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "sim/base/text.hpp"

namespace tracecast {

VersionNumber parse_version(std::string_view text) {
  VersionNumber version;
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
  };
  const auto number = [&](std::size_t& i) {
    int value = 0;
    while (digit(i)) value = std::min(value * 10 + (text[i++] - '0'), 99999);
    return value;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!digit(i)) continue;
    const std::string before =
        to_lower(text.substr(i < 6 ? 0 : i - 6, std::min<std::size_t>(i, 6)));
    const bool is_library =
        before.find("cudnn") != std::string::npos || before.find("cuda") != std::string::npos;
    const int first = number(i);
    if (is_library) {
      while (digit(i) || (i < text.size() && text[i] == '.')) ++i;
      continue;
    }
    if (i < text.size() && text[i] == '.' && digit(i + 1)) {
      version.major = first;
      version.minor = number(++i);
      break;
    }
  }
  version.is_container = to_lower(text).find("ngc") != std::string::npos;
  return version;
}

std::optional<std::string> month_of_container(std::string_view text) {
  const VersionNumber v = parse_version(text);
  const bool is_month =
      v.is_container && v.major >= 16 && v.major < 100 && v.minor >= 1 && v.minor <= 12;
  if (!is_month) return std::nullopt;
  return "20" + std::to_string(v.major) + (v.minor < 10 ? "-0" : "-") + std::to_string(v.minor);
}

bool SinceVersion::holds(std::string_view text, std::string_view when, const GpuSpec& gpu) const {
  const VersionNumber v = parse_version(text);
  if (v.is_container && !container) return false;
  if (v.major == 0) {
    if (!date.empty() && !when.empty()) return when >= date;
    return architecture ? gpu.architecture >= *architecture : today;
  }
  const std::optional<VersionNumber>& from = v.is_container ? container : version;
  return from && std::pair(v.major, v.minor) >= std::pair(from->major, from->minor);
}

std::optional<double> find_cudnn_version(std::string_view text) {
  constexpr std::string_view kName = "cudnn";
  const std::string lower = to_lower(text);
  const std::size_t at = lower.find(kName);
  if (at == std::string::npos) return std::nullopt;
  std::size_t first = at + kName.size();
  while (first < lower.size() && std::string_view(" [vr").find(lower[first]) != std::string::npos) {
    ++first;
  }
  if (std::string_view(lower).substr(first).starts_with("none")) return 0;
  std::size_t last = first;
  const auto digits = [&] {
    while (last < lower.size() && std::isdigit(static_cast<unsigned char>(lower[last]))) ++last;
  };
  digits();
  if (last < lower.size() && lower[last] == '.') {
    ++last;
    digits();
  }
  std::string_view number(lower.data() + first, last - first);
  if (number.ends_with('.')) number.remove_suffix(1);
  const std::optional<double> version = parse_double(number);
  return version && *version >= 1 && *version < 100 ? version : std::nullopt;
}

}  // namespace tracecast
