#pragma once
#include <filesystem>

#include "traces/trace.hpp"

namespace tracecast::traces {

/// Reads an SQLite export of Nsight Systems: kernels, copies, memsets, runtime calls,
/// synchronisation and NVTX ranges. Tables exist only if such events were captured, and their
/// columns differ by version: what is missing is taken as not recorded, but without any CUDA table
/// there is nothing to read. The schema version comes from EXPORT_META_DATA or META_DATA_EXPORT.
/// Host names and environment variables are not read. Throws InputError when the file is no such
/// export or damaged.
[[nodiscard]] Trace read_nsys(const std::filesystem::path& path);

}  // namespace tracecast::traces
