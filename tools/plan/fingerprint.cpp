#include "tools/plan/fingerprint.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "sim/job/sha256.hpp"

namespace tracecast {

namespace {

/// The file that this code was loaded from: the program, or a library with the same code in another
/// one.
std::string own_file() {
  std::ifstream maps("/proc/self/maps");
  const auto here = reinterpret_cast<std::uintptr_t>(&fingerprint_of);
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    const std::size_t path = line.find('/');
    if (begin <= here && here < end && path != std::string::npos &&
        std::filesystem::exists(line.substr(path)))
      return line.substr(path);
  }
  return "/proc/self/exe";
}

}  // namespace

std::string fingerprint_of(const SourceOptions& sources) {
  std::string text = sha256_of_file(own_file());
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
