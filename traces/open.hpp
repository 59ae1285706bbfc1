#pragma once
#include <filesystem>

#include "traces/trace.hpp"

namespace tracecast::traces {

/// Reads a recorded trace of any format that is known, by what the file holds (not by its name):
/// - PyTorch Kineto: JSON, one file or a tar archive of several ranks, whose members may be gzip,
/// - execution traces: PyTorch's (JSON) and Chakra's (binary or JSON), likewise,
/// - what nvprof prints, text or CSV,
/// - a list of kernels with durations, CSV,
/// - an SQLite export of Nsight Systems.
/// All but the last may be gzip. Members of an archive that are no traces are counted in the first
/// one. Throws InputError: absent, damaged, of no known format (the line says which are known), or
/// beyond the bounds that README.md states.
[[nodiscard]] Recording read_recording(const std::filesystem::path& path);

}  // namespace tracecast::traces
