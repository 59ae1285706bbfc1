#include "sim/base/key_text.hpp"

#include <array>
#include <charconv>

namespace tracecast {

void KeyText::add_text(std::string_view value) {
  add_whole(static_cast<std::int64_t>(value.size()));
  text_ += value;
  text_ += '\n';
}

void KeyText::add_whole(std::int64_t value) {
  text_ += std::to_string(value);
  text_ += '\n';
}

void KeyText::add_real(double value) {
  std::array<char, 32> digits;  // the shortest that reads back as the same number
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text_.append(digits.data(), end);
  text_ += '\n';
}

}  // namespace tracecast
