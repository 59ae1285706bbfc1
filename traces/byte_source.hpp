#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace tracecast::traces {

/// Bytes read one after the other.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Up to `size` bytes (size > 0); 0 = the end. Throws InputError when reading fails or the data are damaged.
  virtual std::size_t read(char* to, std::size_t size) = 0;
};

/// A regular file, unpacked on the way when it begins as gzip does. Throws InputError (absent, a folder, unreadable);
/// its `read` throws InputError when the gzip data are damaged or end too early.
[[nodiscard]] std::unique_ptr<ByteSource> open_file(const std::filesystem::path& path);

/// One member of a tar archive after the other.
class TarReader {
 public:
  /// `name` stands in errors.
  TarReader(ByteSource& archive, std::string name);
  /// Goes to the next regular file; false at the end. Throws InputError when the archive is damaged.
  bool next();
  /// Path of the current member as the archive has it.
  [[nodiscard]] const std::string& member() const { return member_; }
  /// Bytes of the current member that have not been read.
  [[nodiscard]] std::uint64_t left() const { return left_; }
  /// Content of the current member, as ByteSource::read.
  std::size_t read(char* to, std::size_t size);

 private:
  bool read_header(char (&header)[512]);
  void skip(std::uint64_t bytes);
  [[nodiscard]] std::string read_long_name(std::uint64_t bytes);

  ByteSource& archive_;
  std::string name_;
  std::string member_;
  std::uint64_t left_ = 0, padding_ = 0;
};

/// Whether `head`, the first bytes of a file, begin a tar archive.
[[nodiscard]] bool is_tar(const char* head, std::size_t size);

}  // namespace tracecast::traces
