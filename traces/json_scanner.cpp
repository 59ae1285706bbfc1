#include "traces/json_scanner.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/base/error.hpp"

namespace tracecast::traces {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{256} << 10;
constexpr std::size_t kLongestToken = std::size_t{16} << 20;
constexpr int kDeepest = 256;
/// Bytes behind the window's end that may be looked at.
constexpr std::size_t kSlack = 32;

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool ends_plain(char c) {
  return c == ',' || c == '}' || c == ']' || c == ':' || c == '"' || c == '{' || c == '[' ||
         is_blank(c) || c == '\0';
}

/// First of `a`, `b`, `c`, `d`, `e` at or after `at`; `end` or later when there is none before it. Reads up to
/// 15 bytes from `end` on.
template <char... wanted>
const char* find_any(const char* at, const char* end) {
#ifdef __SSE2__
  for (; at < end; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    __m128i hits = _mm_setzero_si128();
    ((hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted)))), ...);
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    if (mask != 0) return at + std::countr_zero(mask);
  }
  return end;
#else
  while (at < end && ((*at != wanted) && ...)) ++at;
  return at;
#endif
}

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
    : source_(source), name_(std::move(name)), window_(kWindowBytes + kSlack) {
  at_ = end_ = window_.data();
}

void JsonScanner::refuse(std::string_view found, std::string_view expected) const {
  throw InputError(name_ + ", byte " + std::to_string(position()), found, expected);
}

/// Reads on: bytes from the token (or else from `at_`) on move to the front. False at the end of the source.
bool JsonScanner::refill() {
  const char* keep = token_ != nullptr ? token_ : at_;
  const auto kept = static_cast<std::size_t>(end_ - keep);
  const auto offset = static_cast<std::size_t>(at_ - keep);
  if (kept >= kLongestToken) refuse("a value over 16 MiB", "shorter texts");
  base_ += static_cast<std::uint64_t>(keep - window_.data());
  if (kept * 2 > window_.size() - kSlack) {
    std::vector<char> larger(window_.size() * 2);
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

/// The next byte that is no blank, not consumed; zero at the end.
char JsonScanner::next_significant() {
  for (;;) {
    while (is_blank(*at_)) ++at_;
    if (at_ < end_) return *at_;
    at_ = end_;
    if (!refill()) return '\0';
  }
}

JsonKind JsonScanner::peek() {
  const char c = next_significant();
  switch (c) {
    case '{':
      return JsonKind::Object;
    case '[':
      return JsonKind::Array;
    case '"':
      return JsonKind::String;
    case 't':
    case 'f':
    case 'n':
    case 'N':
    case 'I':
      return JsonKind::Literal;
    case '-':
      return JsonKind::Number;
    default:
      if (c >= '0' && c <= '9') return JsonKind::Number;
      if (at_ == end_) refuse("the end of the file", "more JSON");
      refuse(shown(c), "a JSON value");
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

/// Consumes what stands between members; `open` says whether another one follows.
void JsonScanner::expect_value_separator(char closing, bool& open) {
  char c = next_significant();
  if (c == closing) {
    ++at_;
    --depth_;
    first_ = open = false;
    return;
  }
  if (!first_) {
    if (c != ',') {
      if (at_ == end_) refuse("the end of the file", "more JSON");
      refuse(shown(c), std::string("\",\" or \"") + closing + "\"");
    }
    ++at_;
    c = next_significant();
  }
  if (at_ == end_) refuse("the end of the file", "more JSON");
  first_ = false;
  open = true;
}

bool JsonScanner::next_key(std::string_view& key) {
  bool open = false;
  expect_value_separator('}', open);
  if (!open) return false;
  if (*at_ != '"') refuse(shown(*at_), "a name in quotes");
  key = string_token();
  // The colon follows at once in nearly every file; a refill here must not move the key.
  if (at_ < end_ && *at_ == ':') {
    ++at_;
    return true;
  }
  if (key.data() != scratch_.data()) {
    scratch_.assign(key);
    key = scratch_;
  }
  if (next_significant() != ':') refuse(at_ == end_ ? "the end of the file" : shown(*at_), "\":\"");
  ++at_;
  return true;
}

bool JsonScanner::next_element() {
  bool open = false;
  expect_value_separator(']', open);
  return open;
}

/// Goes from within a string behind its closing quote; whether it held escapes. Bytes of a longer string that nobody
/// keeps do not count against its limit.
bool JsonScanner::skip_string_rest() {
  bool escaped = false;
  for (;;) {
    at_ = find_any<'"', '\\'>(at_, end_);
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

std::string_view JsonScanner::string_token() {
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

/// A number or literal: what stands until something that cannot belong to it.
std::string_view JsonScanner::plain_token() {
  token_ = at_;
  for (;;) {
    while (!ends_plain(*at_)) ++at_;
    if (at_ < end_ || !refill()) break;
  }
  const std::string_view content(token_, static_cast<std::size_t>(at_ - token_));
  token_ = nullptr;
  if (content.empty()) refuse(shown(*at_), "a JSON value");
  return content;
}

std::string_view JsonScanner::text() {
  switch (peek()) {
    case JsonKind::String:
      return string_token();
    case JsonKind::Number:
    case JsonKind::Literal:
      return plain_token();
    default:
      refuse(*at_ == '{' ? "an object" : "an array", "a single value");
  }
}

std::string_view JsonScanner::raw() {
  const JsonKind kind = peek();
  if (kind == JsonKind::Number || kind == JsonKind::Literal) return plain_token();
  token_ = at_;
  if (kind == JsonKind::String) {
    ++at_;
    (void)skip_string_rest();
  } else {
    skip_container();
  }
  const std::string_view content(token_, static_cast<std::size_t>(at_ - token_));
  token_ = nullptr;
  return content;
}

/// Goes behind the container that begins at `at_`.
void JsonScanner::skip_container() {
  std::string closing;  // what the open brackets wait for
  do {
    at_ = find_any<'"', '{', '}', '[', ']'>(at_, end_);
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

void JsonScanner::skip() {
  switch (peek()) {
    case JsonKind::Number:
    case JsonKind::Literal:
      (void)plain_token();
      return;
    case JsonKind::String:
      ++at_;
      (void)skip_string_rest();
      return;
    default:
      skip_container();
  }
}

bool JsonScanner::at_end() { return next_significant() == '\0' && at_ == end_; }

}  // namespace tracecast::traces
