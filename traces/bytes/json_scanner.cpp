#include "traces/bytes/json_scanner.hpp"

#include <cstring>

#include "sim/base/error.hpp"

namespace tracecast::traces {
namespace {

constexpr std::size_t kFirstWindowBytes = std::size_t{4}
                                          << 10;  ///< most files of an archive are small
constexpr std::size_t kWindowBytes = std::size_t{256} << 10;
constexpr std::size_t kLongestToken = std::size_t{16} << 20;
constexpr int kDeepest = 256;
using json::kSlack;

/// Appends a code point as UTF-8.
void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

/// Four hexadecimal digits at `at`, or nothing (a number beyond 16 bit).
std::uint32_t hex4(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = at; i < at + 4; ++i) {
    const char c = i < text.size() ? text[i] : '?';
    const std::uint32_t digit = c >= '0' && c <= '9'   ? static_cast<std::uint32_t>(c - '0')
                                : c >= 'a' && c <= 'f' ? static_cast<std::uint32_t>(c - 'a' + 10)
                                : c >= 'A' && c <= 'F' ? static_cast<std::uint32_t>(c - 'A' + 10)
                                                       : 16;
    if (digit > 15) return 0x10000;
    value = value << 4 | digit;
  }
  return value;
}

char simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    default:
      return c;
  }
}

std::string shown(char c) { return c == '\0' ? "a zero byte" : std::string("\"") + c + "\""; }

}  // namespace

JsonScanner::JsonScanner(ByteSource& source, std::string name)
    : source_(source), name_(std::move(name)), window_(kFirstWindowBytes + kSlack) {
  at_ = end_ = window_.data();
}

void JsonScanner::refuse(std::string_view found, std::string_view expected) const {
  throw InputError(name_ + ", byte " + std::to_string(position()), found, expected);
}

/// Reads on: bytes from the token (or else from `at_`) on move to the front. False at the end of
/// the source.
bool JsonScanner::refill() {
  const char* keep = token_ != nullptr ? token_ : at_;
  const auto kept = static_cast<std::size_t>(end_ - keep);
  const auto offset = static_cast<std::size_t>(at_ - keep);
  if (kept >= kLongestToken) refuse("a value over 16 MiB", "shorter texts");
  base_ += static_cast<std::uint64_t>(keep - window_.data());
  const std::size_t size = window_.size() - kSlack;
  if (kept * 2 > size || (end_ == window_.data() + size && size < kWindowBytes)) {
    std::vector<char> larger(2 * size + kSlack);
    std::memcpy(larger.data(), keep, kept);
    window_.swap(larger);
  } else {
    std::memmove(window_.data(), keep, kept);
  }
  const std::size_t count = source_.read(window_.data() + kept, window_.size() - kSlack - kept);
  if (token_ != nullptr) token_ = window_.data();
  at_ = window_.data() + offset;
  end_ = window_.data() + kept + count;
  window_[kept + count] = '\0';
  return count > 0;
}

char JsonScanner::next_significant_slowly() {
  for (;;) {
    at_ = json::skip_blanks(at_);
    if (at_ < end_) return *at_;
    at_ = end_;
    if (!refill()) return '\0';
  }
}

void JsonScanner::refuse_next(const std::string& expected) const {
  if (at_ == end_) refuse("the end of the file", "more JSON");
  refuse(shown(*at_), expected);
}

JsonKind JsonScanner::kind_of_rare(char c) const {
  switch (c) {
    case 't':
    case 'f':
    case 'n':
    case 'N':
    case 'I':
      return JsonKind::Literal;
    case '-':
      return JsonKind::Number;
    default:
      refuse_next("a JSON value");
  }
}

void JsonScanner::enter_object() {
  if (peek() != JsonKind::Object) refuse(shown(*at_), "an object");
  if (++depth_ > kDeepest) refuse("nesting deeper than 256", "a trace");
  ++at_;
  first_ = true;
}

void JsonScanner::enter_array() {
  if (peek() != JsonKind::Array) refuse(shown(*at_), "an array");
  if (++depth_ > kDeepest) refuse("nesting deeper than 256", "a trace");
  ++at_;
  first_ = true;
}

/// The way to the colon where it does not follow at once. A refill on it must not move the key.
void JsonScanner::finish_key(std::string_view& key) {
  if (key.data() != scratch_.data()) {
    scratch_.assign(key);
    key = scratch_;
  }
  if (next_significant() != ':') refuse(at_ == end_ ? "the end of the file" : shown(*at_), "\":\"");
  ++at_;
}

/// Goes from within a string behind its closing quote; whether it held escapes. Bytes of a longer
/// string that nobody keeps do not count against its limit.
bool JsonScanner::skip_string_rest() {
  bool escaped = false;
  for (;;) {
    at_ = json::find_any<'"', '\\'>(at_, end_);
    if (at_ >= end_) {
      at_ = end_;
      if (!refill()) refuse("the end of the file", "the end of a string");
      continue;
    }
    if (*at_++ == '"') return escaped;
    escaped = true;
    if (at_ >= end_ && !refill()) refuse("the end of the file", "the end of a string");
    ++at_;  // the letter after a backslash
  }
}

/// A string that has escapes, or goes on behind the window.
std::string_view JsonScanner::rest_of_string_token() {
  token_ = ++at_;
  const bool escaped = skip_string_rest();
  const std::string_view content(token_, static_cast<std::size_t>(at_ - 1 - token_));
  token_ = nullptr;
  if (!escaped) return content;
  unescape(content);
  return scratch_;
}

void JsonScanner::unescape(std::string_view raw) {
  scratch_.clear();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 >= raw.size()) {
      scratch_ += raw[i];
    } else if (raw[++i] != 'u') {
      scratch_ += simple_escape(raw[i]);
    } else {
      std::uint32_t code = hex4(raw, i + 1);
      if (code > 0xFFFF) refuse("\\u without four hexadecimal digits", "a JSON string");
      i += 4;
      const bool high = code >= 0xD800 && code < 0xDC00;
      if (high && raw.substr(i + 1, 2) == "\\u") {
        const std::uint32_t low = hex4(raw, i + 3);
        if (low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
      }
      append_utf8(scratch_, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    }
  }
}

/// A number or literal that may go on behind the window.
std::string_view JsonScanner::rest_of_plain_token() {
  token_ = at_;
  for (;;) {
    while (!json::ends_plain(*at_)) ++at_;
    if (at_ < end_ || !refill()) break;
  }
  const std::string_view content(token_, static_cast<std::size_t>(at_ - token_));
  token_ = nullptr;
  if (content.empty()) refuse(shown(*at_), "a JSON value");
  return content;
}

void JsonScanner::refuse_container() const {
  refuse(*at_ == '{' ? "an object" : "an array", "a single value");
}

std::string_view JsonScanner::raw() {
  const JsonKind kind = peek();
  if (kind == JsonKind::Number || kind == JsonKind::Literal) return plain_token();
  token_ = at_;
  if (kind == JsonKind::String) {
    ++at_;
    (void)skip_string_rest();
  } else {
    skip_container("");
  }
  const std::string_view content(token_, static_cast<std::size_t>(at_ - token_));
  token_ = nullptr;
  return content;
}

/// Goes behind the container that begins at `at_`; or out of open ones, which wait for `closing`,
/// innermost last.
void JsonScanner::skip_container(std::string closing) {
  do {
    at_ = json::find_any<'"', '{', '}', '[', ']'>(at_, end_);
    if (at_ >= end_) {
      at_ = end_;
      if (!refill()) refuse("the end of the file", "more JSON");
      continue;
    }
    const char c = *at_++;
    if (c == '{' || c == '[') {
      closing += c == '{' ? '}' : ']';
      if (closing.size() + static_cast<std::size_t>(depth_) > kDeepest)
        refuse("nesting deeper than 256", "a trace");
    } else if (c != '"') {
      if (closing.back() != c) refuse(shown(c), shown(closing.back()));
      closing.pop_back();
    } else {
      (void)skip_string_rest();
    }
  } while (!closing.empty());
}

void JsonScanner::leave_object() {
  --depth_;
  first_ = false;
  skip_container("}");
}

bool JsonScanner::at_end() { return next_significant() == '\0' && at_ == end_; }

}  // namespace tracecast::traces
