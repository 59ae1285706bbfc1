#pragma once
#include <cstdint>

namespace tracecast {

/// The least multiple of `multiple`, which is above 0, that is no less than `value`, which is not
/// below 0.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace tracecast
