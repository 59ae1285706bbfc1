#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tracecast::onnx {

/// Whether bytes begin as gzip's do (RFC 1952).
[[nodiscard]] bool is_gzip(std::string_view bytes);

/// What gzip packed, of all members one behind the other; at most `most_bytes`.
/// Throws InputError naming `where`: damaged, ends early, or unpacks to more.
[[nodiscard]] std::string unpack_gzip(std::string_view bytes, std::string_view where,
                                      std::uint64_t most_bytes);

}  // namespace tracecast::onnx
