#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/byte_source.hpp"

namespace tracecast::traces {

enum class JsonKind { Object, Array, String, Number, Literal };

/// JSON of any length, read value by value in the memory of one window (256 KiB, more only for a longer string). The
/// caller walks the document: what it does not want it skips, at the speed of looking for quotes and brackets.
/// Numbers are handed out as text, since times with 19 digits do not survive a double. NaN and Infinity are taken for
/// literals, as Python writes them. Refused with InputError, which names file and byte: what is no JSON, a file that
/// ends too early, nesting deeper than 256, strings over 16 MiB. Skipped values are checked for balance only.
class JsonScanner {
 public:
  /// `name` stands in errors.
  JsonScanner(ByteSource& source, std::string name);

  /// What comes next; the value is not consumed. Throws InputError at the end.
  JsonKind peek();
  void enter_object();
  /// Goes to the next member and sets `key` (valid until the next call); false: the object is closed.
  bool next_key(std::string_view& key);
  void enter_array();
  /// Whether the array has another element; false: it is closed.
  bool next_element();
  /// The value as text: of a string its content, else what is written. Valid until the next call.
  std::string_view text();
  /// The value as it stands in the file, containers too. Valid until the next call.
  std::string_view raw();
  void skip();
  /// Nothing but blanks follows.
  bool at_end();

  /// Bytes before the next value.
  [[nodiscard]] std::uint64_t position() const {
    return base_ + static_cast<std::uint64_t>(at_ - window_.data());
  }
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const;

 private:
  char next_significant();
  bool refill();
  std::string_view string_token();
  std::string_view plain_token();
  void unescape(std::string_view raw);
  bool skip_string_rest();
  void expect_value_separator(char closing, bool& open);
  void skip_container();

  ByteSource& source_;
  std::string name_;
  std::vector<char> window_;
  const char* at_ = nullptr;     ///< next byte
  const char* end_ = nullptr;    ///< of the bytes in the window; a zero byte stands there
  const char* token_ = nullptr;  ///< bytes from here on survive a refill; nullptr = none
  std::uint64_t base_ = 0;       ///< position of the window's first byte
  std::string scratch_;
  int depth_ = 0;
  bool first_ = true;  ///< no member of the innermost container has been read
};

}  // namespace tracecast::traces
