#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace tracecast {

/// SHA-256 of `bytes` as 64 hexadecimal digits.
[[nodiscard]] std::string sha256(std::string_view bytes);
/// The same of a file's bytes, in little memory. Throws InputError when it cannot be read.
[[nodiscard]] std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace tracecast
