#include "calibrate/cuda/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace tracecast::calibrate::cuda {
namespace {

/// Sub-folders to name in an error before the rest is only counted.
constexpr std::size_t kNamedFolders = 3;

std::string looked_in(std::span<const std::filesystem::path> folders) {
  std::string text = "the system's library path";
  for (std::size_t i = 0; i < std::min(folders.size(), kNamedFolders); ++i) {
    text += ", " + folders[i].string();
  }
  if (folders.size() > kNamedFolders) {
    text += fmt::format(" and {} more folders", folders.size() - kNamedFolders);
  }
  return text;
}

}  // namespace

std::optional<Library> Library::open(std::span<const std::string> names,
                                     std::span<const std::filesystem::path> folders,
                                     std::string& missing) {
  std::string broken;  // a file that is there and does not open says more than one that is absent
  const auto try_open = [&](const std::string& name) -> void* {
    void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr && name.find('/') != std::string::npos && broken.empty()) {
      const char* why = ::dlerror();
      broken = why != nullptr ? why : name;
    }
    return handle;
  };
  for (const std::string& name : names) {
    if (void* handle = try_open(name)) return Library(handle, name);
    for (const std::filesystem::path& folder : folders) {
      const std::filesystem::path file = folder / name;
      std::error_code error;
      if (!std::filesystem::exists(file, error)) continue;
      if (void* handle = try_open(file.string())) return Library(handle, file.string());
    }
  }
  missing = broken.empty()
                ? fmt::format("missing {}: looked in {}", names.front(), looked_in(folders))
                : fmt::format("cannot open {}", broken);
  return std::nullopt;
}

Library::~Library() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

Library& Library::operator=(Library&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  return *this;
}

void* Library::find_symbol(const char* name) const { return ::dlsym(handle_, name); }

std::vector<std::string> sonames(std::string_view stem, int newest, int oldest) {
  std::vector<std::string> names;
  for (int major = newest; major >= oldest; --major) {
    names.push_back(fmt::format("{}.so.{}", stem, major));
  }
  names.push_back(fmt::format("{}.so", stem));
  return names;
}

std::vector<std::string> toolkit_sonames(std::string_view stem, int newest) {
  std::vector<std::string> names;
  for (int major = newest; major >= 12; --major)
    names.push_back(fmt::format("{}.so.{}", stem, major));
  for (const char* version : {"11.8", "11.7", "11.6", "11.5", "11.4", "11.3", "11.2", "11.1",
                              "11.0", "10.2", "10.1", "10.0", "9.2", "9.1", "9.0"}) {
    names.push_back(fmt::format("{}.so.{}", stem, version));
  }
  return names;
}

}  // namespace tracecast::calibrate::cuda
