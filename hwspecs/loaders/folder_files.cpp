#include "hwspecs/loaders/folder_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <system_error>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace tracecast {

std::vector<FolderFile> read_folder_files(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  constexpr std::uint64_t kMostSpecBytes = 1 << 20;
  constexpr std::size_t kMostFiles = 10000;
  std::error_code error;
  std::vector<fs::path> paths;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().extension() == ".textproto") paths.push_back(it->path());
    if (paths.size() > kMostFiles) {
      throw InputError(folder.string(), fmt::format("more than {} specs", kMostFiles), "fewer");
    }
  }
  if (error) throw InputError(folder.string(), error.message(), "a folder of *.textproto files");
  std::sort(paths.begin(), paths.end());
  std::vector<FolderFile> files;
  for (const fs::path& path : paths) {
    files.push_back(
        {path.string(), std::make_shared<const std::string>(read_file(path, kMostSpecBytes))});
  }
  return files;
}

}  // namespace tracecast
