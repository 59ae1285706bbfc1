#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/file.hpp"

/// The examples of config.json in tests/models/language/configs and tests/models/encoder/configs.
namespace tracecast {

[[nodiscard]] inline std::string config_path(const std::string& name) {
  return "tests/models/language/configs/" + name + ".json";
}
[[nodiscard]] inline std::string config_text(const std::string& name) {
  return read_file(config_path(name), 1 << 20);
}
/// Their names, sorted.
[[nodiscard]] inline std::vector<std::string> config_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("tests/models/language/configs")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

[[nodiscard]] inline std::string encoder_config_path(const std::string& name) {
  return "tests/models/encoder/configs/" + name + ".json";
}
[[nodiscard]] inline std::string encoder_config_text(const std::string& name) {
  return read_file(encoder_config_path(name), 1 << 20);
}
[[nodiscard]] inline std::vector<std::string> encoder_config_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("tests/models/encoder/configs")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tracecast
