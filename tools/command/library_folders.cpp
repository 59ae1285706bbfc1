#include "tools/command/library_folders.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>

namespace tracecast {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 4096;  ///< of one folder that is looked through

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Sub-folders of `folder` whose name starts with `prefix`, in descending order: newest versions
/// first.
std::vector<fs::path> sub_folders(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  std::size_t seen = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (++seen > kMostEntries) break;
    if (at->path().filename().string().starts_with(prefix) && at->is_directory(error)) {
      found.push_back(at->path());
    }
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

class Folders {
 public:
  void add(const fs::path& folder) {
    std::error_code error;
    if (folder.empty() || !fs::is_directory(folder, error)) return;
    const fs::path whole = fs::canonical(folder, error);
    if (error || std::find(seen_.begin(), seen_.end(), whole) != seen_.end()) return;
    seen_.push_back(whole);
    folders_.push_back(folder);
  }
  void add_toolkit(const fs::path& root) {
    add(root / "lib64");
    add(root / "lib");
    add(root / "extras" / "CUPTI" / "lib64");
    for (const fs::path& target : sub_folders(root / "targets", "")) add(target / "lib");
  }
  /// PREFIX/lib/python3.N/{site,dist}-packages/nvidia/*/lib
  void add_python(const fs::path& prefix) {
    if (prefix.empty()) return;
    for (const fs::path& version : sub_folders(prefix / "lib", "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : sub_folders(version / packages / "nvidia", "")) {
          add(package / "lib");
        }
      }
    }
  }
  std::vector<fs::path> take() { return std::move(folders_); }

 private:
  std::vector<fs::path> folders_, seen_;
};

/// Of the `python3` that the search path finds first; a virtual environment's link is not followed.
fs::path python_prefix() {
  const std::string path = environment("PATH");
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path folder = path.substr(begin, end - begin);
    std::error_code error;
    if (!folder.empty() && fs::exists(folder / "python3", error)) return folder.parent_path();
    begin = end + 1;
  }
  return {};
}

}  // namespace

std::vector<fs::path> library_folders() {
  Folders folders;
  const std::string path = environment("LD_LIBRARY_PATH");
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    folders.add(path.substr(begin, end - begin));
    begin = end + 1;
  }
  folders.add_python(environment("VIRTUAL_ENV"));
  folders.add_python(environment("CONDA_PREFIX"));
  folders.add_python(python_prefix());
  if (const std::string home = environment("CUDA_HOME"); !home.empty()) folders.add_toolkit(home);
  for (const fs::path& toolkit : sub_folders("/usr/local", "cuda")) folders.add_toolkit(toolkit);
  if (const std::string home = environment("HOME"); !home.empty()) {
    folders.add_python(fs::path(home) / ".local");
  }
  for (const char* prefix : {"/usr/local", "/usr", "/opt/conda"}) folders.add_python(prefix);
  return folders.take();
}

}  // namespace tracecast
