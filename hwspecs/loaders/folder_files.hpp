#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tracecast {

/// One *.textproto of a folder.
struct FolderFile {
  std::string where;
  std::shared_ptr<const std::string> text;
};

/// Every *.textproto of `folder` itself, in name order. Throws InputError: no such folder, more
/// than 10000 files, a file of more than 1 MiB. Private to this box.
[[nodiscard]] std::vector<FolderFile> read_folder_files(const std::filesystem::path& folder);

}  // namespace tracecast
