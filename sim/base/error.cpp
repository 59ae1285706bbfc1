#include "sim/base/error.hpp"

#include "sim/base/foreign_text.hpp"

namespace tracecast {
namespace {

/// A part of one line, of at most a few hundred characters whatever a hostile file held.
std::string part(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  const std::string shown = printable(first_bytes(text, kLongest + 1));
  const std::string_view begin = first_bytes(shown, kLongest);
  return std::string(begin) + (begin.size() < shown.size() ? "..." : "");
}

std::string one_line(std::string_view where, std::string_view found, std::string_view expected) {
  std::string line = part(where) + ": found " + part(found);
  if (!expected.empty()) line += "; expected " + part(expected);
  return line;
}

}  // namespace

InputError::InputError(std::string_view where, std::string_view found, std::string_view expected)
    : std::runtime_error(one_line(where, found, expected)) {}

InputError::InputError(std::string_view where, const InputError& inner)
    : std::runtime_error(part(where) + ": " + inner.what()) {}

void fail_check(const char* condition, const char* file, int line, std::string_view meaning) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": check failed: " + condition + " (" + std::string(meaning) + ")");
}

}  // namespace tracecast
