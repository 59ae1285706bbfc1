#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "traces/bytes/byte_source.hpp"

namespace tracecast::traces {

/// The regular files of a tar archive, one after the other: ustar, GNU (long names) and pax (names
/// and sizes in extended headers). Links are not followed and folders have no content: neither is a
/// member here. A source itself: of the current member's bytes.
class TarReader final : public ByteSource {
 public:
  /// `name` stands in errors.
  TarReader(ByteSource& archive, std::string name);
  /// Goes to the next regular file; false at the end. Throws InputError when the archive is
  /// damaged.
  bool next();
  /// Path of the current member as the archive has it.
  [[nodiscard]] const std::string& member() const { return member_; }
  /// Links, devices and files with holes that were passed over.
  [[nodiscard]] std::uint64_t passed_over() const { return passed_over_; }
  /// Content of the current member.
  std::size_t read(char* to, std::size_t size) override;
  void count_unpacked(std::uint64_t bytes) override { archive_.count_unpacked(bytes); }

 private:
  struct Extended {
    std::string path;
    std::uint64_t bytes = 0;
    bool has_bytes = false;
  };
  using Header = char[512];

  bool read_header(Header& header);
  void skip(std::uint64_t bytes);
  std::string read_text(std::uint64_t bytes, std::string_view what);
  void take_extended(Extended& extended);
  [[noreturn]] void refuse(std::string_view found) const;

  ByteSource& archive_;
  std::string name_;
  std::string member_;
  std::uint64_t left_ = 0, padding_ = 0, passed_over_ = 0;
};

/// Whether `head`, the first bytes of a file, begin a tar archive.
[[nodiscard]] bool is_tar(std::string_view head);

}  // namespace tracecast::traces
