#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tracecast {

/// The bytes of a regular file of at most `most_bytes`.
/// Throws InputError (absent, not a regular file, unreadable, larger than `most_bytes`).
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::uint64_t most_bytes);

/// Writes beside `path`, then renames over it: a reader sees the old file or the whole new one. A
/// link keeps pointing where it did; what is no regular file (a pipe, a terminal, /dev/null) is
/// written to as it stands. Throws InputError when the place cannot be written.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace tracecast
