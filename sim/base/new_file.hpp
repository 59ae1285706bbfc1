#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tracecast {

/// A file in the making; every file that we write goes through here. It grows without a name, or
/// where the file system cannot do that under a name that nobody else has, in the folder of the
/// file that it becomes; `put_in_place` gives it that name in one step. So a reader sees the old
/// file or the whole new one, of several writers one wins whole, and who ends early (an error, a
/// signal, a full disk) leaves the old file as it was.
/// - A file that is there keeps its mode, a new one has what umask leaves of 0666. A link is
/// followed, as Unix does, and keeps
///   pointing where it did; where the system forbids that (fs.protected_symlinks) it is refused.
/// - What is there and no regular file (a pipe, a terminal, /dev/null) is written to as it stands,
/// and so is standard
///   output, which is what "-" means. Who stops reading those is no error: what follows is dropped.
/// All throw InputError with the system's reason when the place cannot be written.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view bytes);
  /// Nothing may be written afterwards. Without it the destructor leaves nothing behind.
  void put_in_place();
  /// Bytes written so far.
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  void open_beside();
  /// A name beside the target that nobody has.
  [[nodiscard]] std::filesystem::path unused_name() const;
  [[noreturn]] void refuse(int error) const;

  std::filesystem::path path_;    ///< as it was given
  std::filesystem::path target_;  ///< where a link leads
  std::filesystem::path beside_;  ///< the name until it is in place; empty while there is none
  bool in_place_ = false;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace tracecast
