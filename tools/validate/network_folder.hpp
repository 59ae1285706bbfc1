#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tracecast {

/// Networks that lie as ONNX files, packed by gzip or not, in a folder with a list of them:
/// files.csv, columns file, model (the name that tables print) and image_size.
class NetworkFolder {
 public:
  /// Throws InputError: no list, a column missing, a network twice, a file that is not there.
  explicit NetworkFolder(const std::filesystem::path& folder);

  /// The path of the network's file; nothing: the list lacks it. `image_size` as a table writes it.
  [[nodiscard]] std::optional<std::string> find(std::string_view model,
                                                std::string_view image_size) const;

 private:
  std::map<std::pair<std::string, std::string>, std::string> paths_;
};

}  // namespace tracecast
