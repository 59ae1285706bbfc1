#include "hwspecs/loaders/spec_scan.hpp"

#include <algorithm>
#include <cctype>

namespace tracecast {
namespace {

/// Where a quoted string that begins at `open` ends: its closing quote, or the end of the text.
std::size_t end_of_string(std::string_view text, std::size_t open) {
  std::size_t at = open + 1;
  while (at < text.size() && text[at] != text[open]) at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

/// Calls `see(word, string)` for words outside of braces, strings and comments: for each with an
/// empty string, and for the last one before a string with that, as written. Ends where `see` is
/// true.
template <class See>
void scan_words(std::string_view text, See see) {
  int depth = 0;
  std::string_view word;  // the last one
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"' || c == '\'') {
      const std::size_t end = end_of_string(text, at);
      if (depth == 0 && see(word, text.substr(at, end - at))) return;
      at = end;
    } else if (c == '{' || c == '}') {
      depth += c == '{' ? 1 : -1;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      std::size_t end = at;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) {
        ++end;
      }
      word = text.substr(at, end - at);
      if (depth == 0 && see(word, std::string_view())) return;
      at = end - 1;
    }
  }
}

}  // namespace

std::string_view scan_string(std::string_view text, std::string_view field) {
  if (text.find(field) == text.npos) return {};
  std::string_view found;
  scan_words(text, [&](std::string_view word, std::string_view string) {
    if (string.empty() || word != field) return false;
    found = string.substr(1);
    return true;
  });
  return found;
}

bool states_field(std::string_view text, std::string_view field) {
  if (text.find(field) == text.npos) return false;
  bool found = false;
  scan_words(text, [&](std::string_view word, std::string_view) {
    found = word == field;
    return found;
  });
  return found;
}

bool names_quoted(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    if (at == 0 || at + word.size() >= text.size()) continue;
    const char before = text[at - 1];
    if ((before == '"' || before == '\'') && text[at + word.size()] == before) return true;
  }
  return false;
}

}  // namespace tracecast
