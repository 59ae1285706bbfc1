#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>

namespace tracecast {

/// Says which whole numbers a flag takes where "1e9", "1K", "2.5" or a number that no flag can hold
/// stands. What is within its own limits the flag's user decides.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// A number from `least` to `most`: "nan" and "inf", which CLI11's own range lets through, are
/// none. Its name tells the help.
[[nodiscard]] CLI::Validator number_within(double least, double most);

/// The same above zero.
[[nodiscard]] CLI::Validator positive_number();

}  // namespace tracecast
