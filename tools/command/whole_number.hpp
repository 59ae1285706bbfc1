#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>

namespace tracecast {

/// Says which whole numbers a flag takes where "1e9", "1K", "2.5" or a number that no flag can hold stands. What is within
/// its own limits the flag's user decides.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most);

}  // namespace tracecast
