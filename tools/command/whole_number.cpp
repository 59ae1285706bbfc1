#include "tools/command/whole_number.hpp"

#include <fmt/format.h>

#include "sim/base/text.hpp"

namespace tracecast {

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        if (parse_integer(text)) return std::string();
        return fmt::format("\"{}\" not in range a whole number from {} to {}, in digits", text,
                           least, most);
      },
      "");
}

}  // namespace tracecast
