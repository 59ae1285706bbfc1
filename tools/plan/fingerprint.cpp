#include "tools/plan/fingerprint.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "sim/job/sha256.hpp"

namespace tracecast {

std::string fingerprint_of(const SourceOptions& sources) {
  std::string text = sha256_of_file("/proc/self/exe");
  for (const std::string& set : sources.sets) text += '\n' + set;
  if (!sources.profile.empty()) text += "\nprofile " + sha256_of_file(sources.profile);
  if (!sources.hwspecs.empty()) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(sources.hwspecs))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files)
      text += '\n' + std::filesystem::relative(file, sources.hwspecs).string() + ' ' +
              sha256_of_file(file);
  }
  return sha256(text);
}

}  // namespace tracecast
