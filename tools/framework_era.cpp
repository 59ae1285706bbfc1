#include "tools/framework_era.hpp"

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
    const int first = number(i);
    if (i < text.size() && text[i] == '.' && digit(i + 1)) {
      version.major = first;
      version.minor = number(++i);
      break;
    }
  }
  version.is_container = to_lower(text).find("ngc") != std::string::npos;
  return version;
}

bool fp32_runs_as_tf32(std::string_view framework, std::string_view version, std::string_view date,
                       const GpuSpec& gpu) {
  if (!gpu.find_peak(Precision::Tf32, MathUnit::TensorCore)) return false;
  if (framework == "tensorflow") return true;
  const VersionNumber v = parse_version(version);
  const std::pair have(v.major, v.minor);
  if (v.major == 0) return date >= "2021";
  if (v.is_container) return have >= std::pair(20, 6);
  if (framework == "pytorch") return have >= std::pair(1, 7);
  return false;
}

std::optional<double> find_cudnn_version(std::string_view text) {
  constexpr std::string_view kName = "cudnn";
  const std::string lower = to_lower(text);
  const std::size_t at = lower.find(kName);
  if (at == std::string::npos) return std::nullopt;
  std::size_t first = at + kName.size();
  while (first < lower.size() && (lower[first] == ' ' || lower[first] == 'v')) ++first;
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
