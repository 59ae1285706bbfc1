#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/encoder/config.hpp"
#include "sim/base/file.hpp"

/// Examples of config.json: those of the zoo (models/zoo/config), and those in
/// tests/models/language/configs and tests/models/encoder/configs of networks that the zoo states
/// otherwise.
namespace tracecast {

namespace configs {
inline const std::string kZoo = "models/zoo/config/";

[[nodiscard]] inline std::string path(const std::string& folder, const std::string& name) {
  const std::string file = name + ".json";
  return std::filesystem::exists(kZoo + file) ? kZoo + file : folder + file;
}
/// Those of the folder, and of the zoo those that are encoders or are not; sorted.
[[nodiscard]] inline std::vector<std::string> names(const std::string& folder, bool encoders) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().stem().string());
  }
  for (const auto& entry : std::filesystem::directory_iterator(kZoo)) {
    const bool is_encoder = !encoder_family(read_file(entry.path().string(), 1 << 20)).empty();
    if (is_encoder == encoders) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}
}  // namespace configs

[[nodiscard]] inline std::string config_path(const std::string& name) {
  return configs::path("tests/models/language/configs/", name);
}
[[nodiscard]] inline std::string config_text(const std::string& name) {
  return read_file(config_path(name), 1 << 20);
}
[[nodiscard]] inline std::vector<std::string> config_names() {
  return configs::names("tests/models/language/configs", false);
}

[[nodiscard]] inline std::string encoder_config_path(const std::string& name) {
  return configs::path("tests/models/encoder/configs/", name);
}
[[nodiscard]] inline std::string encoder_config_text(const std::string& name) {
  return read_file(encoder_config_path(name), 1 << 20);
}
[[nodiscard]] inline std::vector<std::string> encoder_config_names() {
  return configs::names("tests/models/encoder/configs", true);
}

}  // namespace tracecast
