#include "calibrate/cuda/cuda_device.hpp"

namespace tracecast::calibrate {

std::variant<std::unique_ptr<Device>, NoDevice> open_cuda_device(const CudaSearch&, int) {
  return NoDevice{"this tracecast was built without CUDA support (TRACECAST_WITH_CUDA)"};
}

}  // namespace tracecast::calibrate
