#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "hwspecs/software/framework_profile.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"

/// Kernels and copies of a recording, as far as the recording tells what they compute: enough to
/// say how long the same work takes on another GPU (sim/cost/transfer.hpp). Readers of recordings
/// make it (traces/transfer/recorded_work.hpp).
namespace tracecast {

/// How a kernel was launched; 0 = not recorded.
struct LaunchGeometry {
  double blocks = 0;
  int threads = 0;    ///< of a block
  int registers = 0;  ///< of a thread
  int shared_bytes = 0;
};

/// A convolution that one operator computed, in one kernel or several.
struct RecordedConvolution {
  ConvAttributes shape;
  std::vector<Pass> passes;               ///< one, or both gradients
  Algorithm algorithm = Algorithm::None;  ///< of its main kernel; None = two passes, or not named
  PrecisionMode mode = PrecisionMode::Fp32;  ///< of its main kernel
  ImageLayout layout = ImageLayout::Nchw;
};

struct RecordedKernel {
  KernelClass kernel_class{};
  Algorithm algorithm{};
  Precision math = Precision::Fp32;
  MathUnit unit = MathUnit::CudaCore;
  Seconds duration{};
  LaunchGeometry launch;
  /// Output of one block of a GEMM and blocks along it (rows, columns, GEMMs); 0 = not known.
  int tile_m = 0, tile_n = 0;
  std::int64_t tiles_m = 0, tiles_n = 0, gemms = 0;
  bool changes_layout = false;               ///< between the layouts of images
  std::optional<std::uint32_t> convolution;  ///< that it is part of, where its shape is known
  std::optional<std::uint32_t>
      work;  ///< index into RecordedWork::works, where its shapes are known
};

/// The precision mode whose kernels compute so. FP32 on tensor cores is TF32.
[[nodiscard]] constexpr PrecisionMode mode_of(const RecordedKernel& kernel) {
  switch (kernel.math) {
    case Precision::Tf32:
      return PrecisionMode::Tf32;
    case Precision::Fp16:
      return PrecisionMode::Fp16;
    case Precision::Bf16:
      return PrecisionMode::Bf16;
    case Precision::Fp8:
      return PrecisionMode::Fp8;
    case Precision::Int8:
      return PrecisionMode::Int8;
    default:
      return kernel.unit == MathUnit::TensorCore ? PrecisionMode::Tf32 : PrecisionMode::Fp32;
  }
}

enum class CopyRoute : std::uint8_t {
  Device,    ///< within one GPU's memory; also what fills memory
  Link,      ///< between the GPU and pinned host memory
  Pageable,  ///< the same of pageable memory: through a buffer that the driver fills
  Peer,      ///< between GPUs
};

struct RecordedWork {
  std::vector<RecordedKernel> kernels;  ///< one per kernel of the recording, in its order
  std::vector<RecordedConvolution> convolutions;
  std::vector<Kernel> works;      ///< each once
  std::vector<CopyRoute> copies;  ///< one per copy of the recording, in its order
};

}  // namespace tracecast
