#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace tracecast::traces {

/// Bytes read one after the other.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Up to `size` bytes (size > 0); 0 = the end. Throws InputError when reading fails or the data
  /// are damaged.
  virtual std::size_t read(char* to, std::size_t size) = 0;
  /// Tells the file below that `bytes` more were unpacked from what was read of it, by whatever
  /// stands above. Throws InputError beyond what a file of its size may hold; a source that is no
  /// file does not mind.
  virtual void count_unpacked(std::uint64_t bytes) { (void)bytes; }
};

/// What a file may unpack to, all packing within it together: 64 MiB, and 100 bytes for each of its
/// own. Recordings reach 20 to 40; deflate's most is 1032, which nothing but repetition does.
inline constexpr std::uint64_t kFreeUnpackedBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMostUnpackedPerByte = 100;

/// A file, unpacked on the way when it begins as gzip does. Throws InputError (absent, a folder,
/// unreadable); its `read` throws InputError when the gzip data are damaged, end too early, or
/// unpack to more than a file of this size may.
[[nodiscard]] std::unique_ptr<ByteSource> open_file(const std::filesystem::path& path);

}  // namespace tracecast::traces
