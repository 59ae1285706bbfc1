#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/bytes/byte_source.hpp"
#include "traces/bytes/json_bytes.hpp"

namespace tracecast::traces {

enum class JsonKind { Object, Array, String, Number, Literal };

/// JSON of any length, read value by value in the memory of one window (at most 256 KiB, more only
/// for a longer string). The caller walks the document: what it does not want it skips, at the
/// speed of looking for quotes and brackets. Numbers are handed out as text, since times with 19
/// digits do not survive a double. NaN and Infinity are taken for literals, as Python writes them.
/// Refused with InputError, which names file and byte: what is no JSON, a file that ends too early,
/// nesting deeper than 256, strings over 16 MiB. Skipped values are checked for balance only.
class JsonScanner {
 public:
  /// `name` stands in errors.
  JsonScanner(ByteSource& source, std::string name);

  /// What comes next; the value is not consumed. Throws InputError at the end.
  JsonKind peek();
  void enter_object();
  /// Goes to the next member and sets `key` (valid until the next call); false: the object is
  /// closed.
  bool next_key(std::string_view& key);
  void enter_array();
  /// Whether the array has another element; false: it is closed.
  bool next_element();
  /// The value as text: of a string its content, else what is written. Valid until the next call.
  std::string_view text();
  /// The value as it stands in the file, containers too. Valid until the next call.
  std::string_view raw();
  /// Reads a number without sign or exponent, of at most 3 decimals and up to 2e15, in thousandths:
  /// the usual case, at once. False: it is something else, or may go on; nothing is consumed then.
  bool take_thousandths(std::int64_t& value);
  /// Likewise a whole number of at most 18 digits.
  bool take_whole(std::int64_t& value);
  void skip();
  /// Skips what is left of the innermost container, an object, and closes it.
  void leave_object();
  /// Nothing but blanks follows.
  bool at_end();

  /// Bytes before the next value.
  [[nodiscard]] std::uint64_t position() const {
    return base_ + static_cast<std::uint64_t>(at_ - window_.data());
  }
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const;

 private:
  char next_significant();
  char next_significant_slowly();
  bool refill();
  std::string_view string_token();
  std::string_view rest_of_string_token();
  std::string_view plain_token();
  std::string_view rest_of_plain_token();
  [[nodiscard]] JsonKind kind_of_rare(char c) const;
  [[noreturn]] void refuse_next(const std::string& expected) const;
  [[noreturn]] void refuse_container() const;
  void finish_key(std::string_view& key);
  void unescape(std::string_view raw);
  bool skip_string_rest();
  bool is_open(char closing);
  void skip_container(std::string closing);

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

/// The next byte that is no blank, not consumed; zero at the end.
inline char JsonScanner::next_significant() {
  if (*at_ > ' ') return *at_;
  if (*at_ == ' ' && at_[1] > ' ') return *++at_;
  return next_significant_slowly();
}

inline JsonKind JsonScanner::peek() {
  const char c = next_significant();
  if (c == '"') return JsonKind::String;
  if (c >= '0' && c <= '9') return JsonKind::Number;
  if (c == '{') return JsonKind::Object;
  if (c == '[') return JsonKind::Array;
  return kind_of_rare(c);
}

/// Consumes what stands between members; whether another one follows.
inline bool JsonScanner::is_open(char closing) {
  char c = next_significant();
  if (c == closing) {
    ++at_;
    --depth_;
    return first_ = false;
  }
  if (!first_) {
    if (c != ',') refuse_next(std::string("\",\" or \"") + closing + "\"");
    ++at_;
    c = next_significant();
  }
  if (c == '\0' && at_ == end_) refuse_next("more JSON");
  first_ = false;
  return true;
}

inline bool JsonScanner::next_key(std::string_view& key) {
  if (!is_open('}')) return false;
  if (*at_ != '"') refuse_next("a name in quotes");
  key = string_token();
  // The colon follows at once in nearly every file.
  if (*at_ == ':' && at_ < end_) {
    ++at_;
  } else {
    finish_key(key);
  }
  return true;
}

inline bool JsonScanner::next_element() { return is_open(']'); }

inline std::string_view JsonScanner::string_token() {
  const char* first = at_ + 1;
  const char* found = json::find_any<'"', '\\'>(first, end_);
  if (found >= end_ || *found != '"') return rest_of_string_token();
  at_ = found + 1;
  return {first, static_cast<std::size_t>(found - first)};
}

/// A number or literal: what stands until something that cannot belong to it.
inline std::string_view JsonScanner::plain_token() {
  const char* end = at_;
  while (!json::ends_plain(*end)) ++end;
  if (end == at_ || end >= end_) return rest_of_plain_token();
  const std::string_view content(at_, static_cast<std::size_t>(end - at_));
  at_ = end;
  return content;
}

inline std::string_view JsonScanner::text() {
  const JsonKind kind = peek();
  if (kind == JsonKind::String) return string_token();
  if (kind == JsonKind::Object || kind == JsonKind::Array) refuse_container();
  return plain_token();
}

inline void JsonScanner::skip() {
  const JsonKind kind = peek();
  if (kind == JsonKind::Number || kind == JsonKind::Literal) {
    (void)plain_token();
  } else if (kind == JsonKind::String) {
    ++at_;
    (void)skip_string_rest();
  } else {
    skip_container("");
  }
}

inline bool JsonScanner::take_whole(std::int64_t& value) {
  (void)next_significant();
  const char* at = at_;
  const std::uint64_t digits = json::take_digits(at);
  const auto count = at - at_;
  if (count == 0 || count > 18 || !json::ends_plain(*at) || at >= end_) return false;
  value = static_cast<std::int64_t>(digits);
  at_ = at;
  return true;
}

inline bool JsonScanner::take_thousandths(std::int64_t& value) {
  (void)next_significant();
  const char* at = at_;
  std::uint64_t digits = json::take_digits(at);
  if (at == at_ || at - at_ > 16) return false;
  std::ptrdiff_t decimals = 0;
  if (*at == '.') {
    const char* point = at++;
    digits = json::take_digits(at, digits);
    decimals = at - point - 1;
    if (decimals == 0 || decimals > 3) return false;
  }
  for (; decimals < 3; ++decimals) digits *= 10;
  constexpr std::uint64_t kLargest = 2'000'000'000'000'000'000;
  if (digits > kLargest || !json::ends_plain(*at) || at >= end_) return false;
  value = static_cast<std::int64_t>(digits);
  at_ = at;
  return true;
}

}  // namespace tracecast::traces
