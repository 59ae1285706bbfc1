#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// One line of at most a few hundred characters, whatever a hostile file held.
std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 300;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  if (text.size() > kLongest) out += "...";
  return out;
}

std::string one_line(std::string_view where, std::string_view found, std::string_view expected) {
  std::string line = printable(where) + ": found " + printable(found);
  if (!expected.empty()) line += "; expected " + printable(expected);
  return line;
}

}  // namespace

InputError::InputError(std::string_view where, std::string_view found, std::string_view expected)
    : std::runtime_error(one_line(where, found, expected)) {}

InputError::InputError(std::string_view where, const InputError& inner)
    : std::runtime_error(printable(where) + ": " + inner.what()) {}

void fail_check(const char* condition, const char* file, int line, std::string_view meaning) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": check failed: " + condition + " (" + std::string(meaning) + ")");
}

}  // namespace tracecast
