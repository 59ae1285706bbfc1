#pragma once
#include <filesystem>

#include "traces/trace.hpp"

namespace tracecast::traces {

/// Reads a recorded trace of any format that is known, by what the file holds (not by its name):
/// - PyTorch Kineto: .json, .json.gz, or a .tar(.gz) of several ranks.
/// Throws InputError: absent, damaged, or of no known format; the line says which formats are known.
[[nodiscard]] Recording read_recording(const std::filesystem::path& path);

}  // namespace tracecast::traces
