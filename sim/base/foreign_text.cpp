#include "sim/base/foreign_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace tracecast {
namespace {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;
  bool is_valid = false;
};

/// The first code point of text that is not empty. Refuses what Unicode refuses: overlong forms,
/// surrogates, more than U+10FFFF, sequences cut short; such a byte stands alone.
CodePoint first_code_point(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t value = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  const bool is_surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kLeast[bytes] || value > 0x10FFFF || is_surrogate) return {};
  return {value, bytes, true};
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

struct Range {
  char32_t first, last;
};
template <std::size_t n>
bool is_in(const std::array<Range, n>& ranges, char32_t c) {
  const auto range = std::lower_bound(ranges.begin(), ranges.end(), c,
                                      [](const Range& r, char32_t x) { return r.last < x; });
  return range != ranges.end() && range->first <= c;
}

bool is_command(char32_t c) {
  static constexpr std::array<Range, 6> kCommands = {{{0x00, 0x1F},
                                                      {0x7F, 0x9F},
                                                      {0x061C, 0x061C},
                                                      {0x200E, 0x200F},
                                                      {0x2028, 0x202E},
                                                      {0x2066, 0x2069}}};
  const bool is_shown = c >= 0x20 && c < 0x7F;  // nearly all there is
  return !is_shown && is_in(kCommands, c);
}

/// Columns of a character that is shown. Ranges: Unicode 15, East Asian Width W and F, and the
/// combining marks of alphabets, in coarse blocks.
std::size_t width_of(char32_t c) {
  static constexpr std::array<Range, 9> kNone = {{{0x0300, 0x036F},
                                                  {0x0483, 0x0489},
                                                  {0x0591, 0x05BD},
                                                  {0x1AB0, 0x1AFF},
                                                  {0x1DC0, 0x1DFF},
                                                  {0x200B, 0x200D},
                                                  {0x20D0, 0x20FF},
                                                  {0xFE00, 0xFE0F},
                                                  {0xFE20, 0xFE2F}}};
  static constexpr std::array<Range, 13> kTwo = {{{0x1100, 0x115F},
                                                  {0x231A, 0x231B},
                                                  {0x2329, 0x232A},
                                                  {0x2E80, 0x303E},
                                                  {0x3041, 0xA4CF},
                                                  {0xA960, 0xA97C},
                                                  {0xAC00, 0xD7A3},
                                                  {0xF900, 0xFAFF},
                                                  {0xFE30, 0xFE6F},
                                                  {0xFF00, 0xFF60},
                                                  {0xFFE0, 0xFFE6},
                                                  {0x1F300, 0x1FAFF},
                                                  {0x20000, 0x3FFFD}}};
  if (c < 0x300) return 1;
  return is_in(kNone, c) ? 0 : is_in(kTwo, c) ? 2 : 1;
}

void append_hex(std::string& out, char32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789abcdef"[value >> shift & 15];
}

/// "\u001b"; no command is above U+FFFF.
void append_escape(std::string& out, char32_t c) {
  out += "\\u";
  append_hex(out, c, 4);
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// Copies `text`, but what `is_wanted` says no to, and what is no UTF-8, as `replace` appends it.
template <class IsWanted, class Replace>
std::string rewrite(std::string_view text, const IsWanted& is_wanted, const Replace& replace) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_ascii(text[end]) && is_wanted(static_cast<char32_t>(text[end])))
      ++end;
    out.append(text, at, end - at);
    at = end;
    if (at == text.size()) break;
    const CodePoint c = first_code_point(text.substr(at));
    if (c.is_valid && is_wanted(c.value)) {
      out.append(text, at, c.bytes);
    } else {
      replace(out, c, static_cast<unsigned char>(text[at]));
    }
    at += c.bytes;
  }
  return out;
}

void escape_for_json(std::string& out, const CodePoint& c, unsigned char) {
  c.is_valid ? append_escape(out, c.value) : static_cast<void>(out += kReplacement);
}

/// Whether a spreadsheet would compute what begins so. The wide forms count as well; a single dash
/// stands for nothing.
bool begins_formula(std::string_view text) {
  if (text == "-") return false;
  for (const std::string_view sign : {"=", "+", "-", "@", "＝", "＋", "－", "＠"}) {
    if (!text.starts_with(sign)) continue;
    double number = 0;
    const char* const end = text.data() + text.size();
    return std::from_chars(text.data(), end, number).ptr != end || !std::isfinite(number);
  }
  return false;
}

}  // namespace

std::string printable(std::string_view text) {
  return rewrite(
      text, [](char32_t c) { return !is_command(c); },
      [](std::string& out, const CodePoint& c, unsigned char byte) {
        if (c.bytes > 1) return append_escape(out, c.value);
        out += "\\x";
        append_hex(out, byte, 2);
      });
}

std::string printable_page(std::string_view page) {
  return rewrite(
      page, [](char32_t c) { return c == '\n' || c == '\t' || !is_command(c); }, escape_for_json);
}

std::string as_utf8(std::string_view text) {
  return rewrite(
      text, [](char32_t) { return true; }, escape_for_json);
}

std::string json_quoted(std::string_view text) {
  return '"' +
         rewrite(
             text, [](char32_t c) { return c != '"' && c != '\\' && !is_command(c); },
             [](std::string& out, const CodePoint& c, unsigned char byte) {
               if (byte != '"' && byte != '\\') return escape_for_json(out, c, byte);
               out += '\\';
               out += static_cast<char>(byte);
             }) +
         '"';
}

std::string csv_field(std::string_view text) {
  std::string field = printable(text);
  if (begins_formula(field)) field.insert(0, 1, '\'');
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    count += c.is_valid ? width_of(c.value) : 1;
    text.remove_prefix(c.bytes);
  }
  return count;
}

std::string_view first_columns(std::string_view text, std::size_t width) {
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const CodePoint c = first_code_point(text.substr(bytes));
    const std::size_t wanted = c.is_valid ? width_of(c.value) : 1;
    if (wanted > width) break;
    width -= wanted;
    bytes += c.bytes;
  }
  return text.substr(0, bytes);
}

std::string_view last_columns(std::string_view text, std::size_t width) {
  for (std::size_t left = columns(text); !text.empty();) {
    const CodePoint c = first_code_point(text);
    const std::size_t wide = c.is_valid ? width_of(c.value) : 1;
    // A mark that combines with what was left out goes with it.
    if (left <= width && wide > 0) break;
    left -= wide;
    text.remove_prefix(c.bytes);
  }
  return text;
}

std::string_view first_bytes(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t end = 0;
  while (end < bytes) {
    const std::size_t next = end + first_code_point(text.substr(end)).bytes;
    if (next > bytes) break;
    end = next;
  }
  return text.substr(0, end);
}

}  // namespace tracecast
