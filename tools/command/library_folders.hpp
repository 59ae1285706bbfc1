#pragma once
#include <filesystem>
#include <vector>

namespace tracecast {

/// Folders in which CUDA's libraries are often found beside the system's own: those of
/// LD_LIBRARY_PATH and CUDA_HOME, /usr/local/cuda*/lib64 and lib newest first, extras/CUPTI/lib64
/// in them, and nvidia/*/lib within Python installations (the active virtual environment, Conda,
/// the user's and the system's site-packages). Existing ones, each once.
[[nodiscard]] std::vector<std::filesystem::path> library_folders();

}  // namespace tracecast
