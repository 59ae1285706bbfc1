#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "calibrate/cuda/driver.hpp"
#include "calibrate/device/device.hpp"

namespace tracecast::calibrate::cuda {

/// An experiment with its buffers and descriptors, ready to be launched again and again.
struct Operation {
  /// Enqueues one repetition in the driver's stream, or does it at once when `method` is Host. Owns
  /// what it uses. Throws CannotRun, DeviceLost.
  std::function<void()> launch;
  /// How it is to be timed. Kernels: by CUPTI's records where there are any, else by events.
  TimingMethod method = TimingMethod::Kernels;
  /// Repetitions that one `launch` does; a duration is one of them.
  int per_launch = 1;
  Bytes workspace{};
};

/// Device memory with noise in it: numbers in [-1, 1) in the given format (int8: -8 to 7), since
/// what a board draws, and so its clock, depends on the data. Throws CannotRun.
[[nodiscard]] DeviceMemory noise(const Driver& driver, std::size_t elements, Precision precision);
/// Zeroed device memory. Throws CannotRun.
[[nodiscard]] DeviceMemory zeros(const Driver& driver, std::size_t bytes);

/// Our own kernels, loaded.
class OwnKernels {
 public:
  OwnKernels(const Driver& driver, std::string_view image)
      : driver_(driver), module_(driver, image) {}
  [[nodiscard]] const Driver& driver() const { return driver_; }
  [[nodiscard]] CUfunction find(const std::string& name) const {
    return module_.function(name.c_str());
  }

 private:
  const Driver& driver_;
  Module module_;
};

/// Elementwise, softmax, layer norm, reduction, gather, updates, launches.
/// Throws CannotRun where there is no such kernel or not enough memory.
[[nodiscard]] Operation prepare(const OwnKernels& kernels, const ElementwiseShape& shape,
                                Precision precision);
[[nodiscard]] Operation prepare(const OwnKernels& kernels, const RowsShape& shape,
                                Precision precision);
[[nodiscard]] Operation prepare(const OwnKernels& kernels, const ReductionShape& shape,
                                Precision precision);
[[nodiscard]] Operation prepare(const OwnKernels& kernels, const EmbeddingShape& shape,
                                Precision precision);
[[nodiscard]] Operation prepare(const OwnKernels& kernels, const OptimizerShape& shape);
[[nodiscard]] Operation prepare(const OwnKernels& kernels, const LaunchShape& shape);
/// Enqueues a kernel that keeps the GPU busy for about `time`, so that what follows is launched
/// before it can start.
void enqueue_delay(const OwnKernels& kernels, Seconds time, Hertz clock);

/// Copies. Pageable ones are timed by the host, as they return when done.
[[nodiscard]] Operation prepare(const Driver& driver, const CopyShape& shape);

}  // namespace tracecast::calibrate::cuda
