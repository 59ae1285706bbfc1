#include "tools/command/whole_number.hpp"

#include <fmt/format.h>

#include "sim/base/text.hpp"

namespace tracecast {
namespace {

constexpr double kMostPositive = 1e15;  ///< dollars, seconds, requests per hour

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        if (parse_integer(text)) return std::string();
        return fmt::format("\"{}\" not in range a whole number from {} to {}, in digits", text,
                           least, most);
      },
      "");
}

CLI::Validator number_within(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        const auto value = parse_double(text);
        if (value && *value >= least && *value <= most) return std::string();
        return fmt::format("\"{}\" not in range a number from {:g} to {:g}", text, least, most);
      },
      fmt::format("FLOAT in [{:g} - {:g}]", least, most));
}

CLI::Validator positive_number() {
  return CLI::Validator(
      [](const std::string& text) {
        const auto value = parse_double(text);
        if (value && *value >= 1 / kMostPositive && *value <= kMostPositive) return std::string();
        return fmt::format("\"{}\" not in range a number above 0, at most {:g}", text,
                           kMostPositive);
      },
      "POSITIVE");
}

}  // namespace tracecast
