#include "traces/chrome/event_text.hpp"

namespace tracecast::traces::chrome {

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char kDigits[] = "0123456789abcdef";
      quoted += "\\u00";
      quoted += kDigits[(c >> 4) & 15];
      quoted += kDigits[c & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace tracecast::traces::chrome
