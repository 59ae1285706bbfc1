#pragma once
#include <string>
#include <string_view>

namespace tracecast {

/// SHA-256 of `bytes` as 64 hexadecimal digits.
[[nodiscard]] std::string sha256(std::string_view bytes);

}  // namespace tracecast
