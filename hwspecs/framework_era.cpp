#include "hwspecs/framework_era.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Months of release, in order. Source: NVIDIA cuDNN archive and release notes.
constexpr std::pair<double, std::string_view> kCudnnReleases[] = {
    {1, "2014-09"},   {2, "2015-03"},   {3, "2015-09"},   {4, "2016-02"},
    {5, "2016-05"},   {5.1, "2016-08"}, {6, "2017-04"},   {7, "2017-10"},
    {7.6, "2019-05"}, {8, "2020-06"},   {8.9, "2023-04"}, {9, "2024-02"}};

}  // namespace

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

bool fp32_runs_as_tf32(std::string_view framework, std::string_view version, std::string_view date,
                       const GpuSpec& gpu) {
  if (!gpu.find_peak(Precision::Tf32, MathUnit::TensorCore)) return false;
  if (framework == "tensorflow") return true;
  const VersionNumber v = parse_version(version);
  const std::pair have(v.major, v.minor);
  if (v.major == 0) return date.empty() ? framework == "pytorch" : date >= "2021";
  if (v.is_container) return true;
  if (framework == "pytorch") return have >= std::pair(1, 7);
  return false;
}

bool tf32_spares_products(std::string_view framework, std::string_view version,
                          std::string_view date) {
  if (framework != "pytorch") return false;
  const VersionNumber v = parse_version(version);
  if (v.is_container) return false;
  if (v.major == 0) return date.empty() || date >= "2022-07";
  return std::pair(v.major, v.minor) >= std::pair(1, 12);
}

double newest_cudnn(std::string_view date) {
  double newest = 1;
  for (const auto& [version, released] : kCudnnReleases) {
    if (released <= date) newest = version;
  }
  return newest;
}

bool fuses_product_bias(std::string_view framework, std::string_view version, const GpuSpec& gpu) {
  if (framework != "pytorch") return false;
  const VersionNumber v = parse_version(version);
  const std::pair have(v.major, v.minor);
  if (v.major == 0) return gpu.architecture >= Architecture::Ada;
  return have >= (v.is_container ? std::pair(22, 5) : std::pair(1, 13));
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
