#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/bytes/byte_source.hpp"

namespace tracecast::traces {

/// A text line by line, in the memory of one line of at most 1 MiB; line ends (LF, CRLF) are cut.
class LineReader {
 public:
  /// `name` stands in errors.
  LineReader(ByteSource& source, std::string name);
  /// The next line, valid until the next call; false at the end. Throws InputError for a longer
  /// line.
  bool next(std::string_view& line);
  /// Bytes of the lines that were handed out.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  /// "file:line".
  [[nodiscard]] std::string where() const { return name_ + ":" + std::to_string(number_); }

 private:
  ByteSource& source_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0, number_ = 0;
  std::uint64_t position_ = 0;
  bool at_end_ = false;
};

}  // namespace tracecast::traces
