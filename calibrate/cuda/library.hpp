#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tracecast::calibrate::cuda {

/// A shared library opened at run time. It stays in the process when the object goes, since CUDA's
/// libraries leave threads and exit handlers behind; so pointers into it are always good.
class Library {
 public:
  /// Tries each name by the system's own search, then in each folder; the first that opens wins. On
  /// failure `missing` says, in one line, which name was looked for and where.
  static std::optional<Library> open(std::span<const std::string> names,
                                     std::span<const std::filesystem::path> folders,
                                     std::string& missing);
  ~Library();
  Library(Library&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
  Library& operator=(Library&& other) noexcept;

  /// The address of a function, under the first of its names that the library exports; null when
  /// there is none. Names differ by version: "cuMemAlloc_v2" and then "cuMemAlloc".
  template <class Function>
  [[nodiscard]] Function find(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (void* at = find_symbol(name)) return reinterpret_cast<Function>(at);
    }
    return nullptr;
  }
  /// As it was opened: a soname or a path.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  Library(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  [[nodiscard]] void* find_symbol(const char* name) const;

  void* handle_;
  std::string name_;
};

/// "libcudnn.so.9", "libcudnn.so.8" ... for majors `newest` down to `oldest`, and bare
/// "libcudnn.so" last.
[[nodiscard]] std::vector<std::string> sonames(std::string_view stem, int newest, int oldest);

/// The same for a library whose soname had the toolkit's minor version before CUDA 12: majors
/// `newest` down to 12, then "libcupti.so.11.8" to "libcupti.so.9.0".
[[nodiscard]] std::vector<std::string> toolkit_sonames(std::string_view stem, int newest);

/// Fills tables of functions and remembers what was not there.
class Symbols {
 public:
  explicit Symbols(const Library& library) : library_(library) {}
  /// Required: `missing` names it when it is absent.
  template <class Function>
  void need(Function& to, std::initializer_list<const char*> names) {
    to = library_.find<Function>(names);
    if (to == nullptr && missing_.empty()) missing_ = *names.begin();
  }
  /// Optional: null when it is absent.
  template <class Function>
  void want(Function& to, std::initializer_list<const char*> names) {
    to = library_.find<Function>(names);
  }
  /// The first required function that is absent; empty when all are there.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  const Library& library_;
  std::string missing_;
};

}  // namespace tracecast::calibrate::cuda
