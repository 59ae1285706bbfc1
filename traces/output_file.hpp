#pragma once
#include <filesystem>
#include <functional>
#include <string_view>

namespace tracecast::traces {

/// Takes bytes in order, in pieces.
using ByteSink = std::function<void(std::string_view)>;

/// Writes a file as `fill` gives its bytes: beside `path`, then renamed over it, so that nobody sees half of it; what is no
/// regular file is written to as it stands. Throws InputError when it cannot be written; nothing stays then.
void write_output_file(const std::filesystem::path& path,
                       const std::function<void(const ByteSink&)>& fill);

}  // namespace tracecast::traces
