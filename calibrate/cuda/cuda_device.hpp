#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "calibrate/device/device.hpp"

namespace tracecast::calibrate {

/// Where CUDA's libraries may lie, beside what the loader finds by itself; searched in this order.
struct CudaSearch {
  std::vector<std::filesystem::path> folders;
};
/// Why no GPU can be measured, in one line: what is missing, and where it was looked for.
struct NoDevice {
  std::string reason;
};

/// The GPU of that index (the driver's order), with every CUDA library opened at run time. What
/// only some experiments need (cuDNN, cuBLAS, NVRTC, NCCL) may be missing: those experiments are
/// then unsupported. NVML and CUPTI may be missing or refuse: `identity().remarks` says so.
[[nodiscard]] std::variant<std::unique_ptr<Device>, NoDevice> open_cuda_device(
    const CudaSearch& search, int index);

}  // namespace tracecast::calibrate
