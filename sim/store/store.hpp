#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tracecast::store {

/// Results by key in one SQLite file, which several threads and processes may use at once. A value
/// is there whole or not at all, however a writer ends (write-ahead log); a key's first value
/// stays.
class Store {
 public:
  /// Opens the file, or makes it. Throws InputError: no such folder, no database of ours, not
  /// writable.
  explicit Store(const std::filesystem::path& file);
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  [[nodiscard]] std::optional<std::string> find(std::string_view key) const;
  void put(std::string_view key, std::string_view value);
  [[nodiscard]] std::size_t size() const;

 private:
  struct Database;
  std::unique_ptr<Database> database_;
};

}  // namespace tracecast::store
