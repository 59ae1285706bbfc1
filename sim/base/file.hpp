#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tracecast {

/// Throws InputError unless `path` is a regular file: a pipe or a device may never end, or never
/// begin. Returns its size.
std::uint64_t check_regular_file(const std::filesystem::path& path,
                                 std::string_view expected = "a file");

/// The bytes of a regular file of at most `most_bytes`.
/// Throws InputError (absent, not a regular file, unreadable, larger than `most_bytes`).
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::uint64_t most_bytes);

/// Writes a file as NewFile does: whole or not at all. Throws InputError when the place cannot be
/// written.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tracecast
