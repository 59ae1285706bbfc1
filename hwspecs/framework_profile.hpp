#pragma once
#include <string>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How a user asks for number formats; lowering turns it into formats per kernel.
enum class PrecisionMode { Fp32, Tf32, Amp, Fp16, Bf16, Fp8, Int8 };
[[nodiscard]] std::string_view to_string(PrecisionMode mode);

/// Memory layout in which a framework keeps images between ops.
enum class ImageLayout { Nchw, Nhwc };

/// Documented behaviour and measured host costs of a deep-learning framework. Behaviour has a source; host costs
/// have a data set and date; both are in the profile's text file.
struct FrameworkProfile {
  std::string id;  ///< "tensorflow", "pytorch", "ideal"
  std::string name;
  ImageLayout image_layout = ImageLayout::Nchw;

  // Host: what one thread pays before a kernel can start.
  Seconds dispatch_per_op{};            ///< forward op: Python, shape checks, allocator
  Seconds dispatch_per_backward_op{};   ///< ops run by the C++ autograd engine or the graph executor
  Seconds dispatch_per_optimizer_op{};
  Seconds launch_per_kernel{};          ///< one cudaLaunchKernel on the host
  Seconds step_overhead{};              ///< once per step: session.run, feeding, the loop around it
  bool synchronizes_each_step = false;  ///< the host waits for the GPU before it dispatches the next step

  // Convolution algorithm choice.
  bool autotunes_convolutions = false;
  Bytes convolution_workspace_limit{};

  // Fusion and kernels per op.
  bool fuses_bias = false;                ///< convolution bias in the convolution kernel's epilogue
  bool fuses_batch_norm_activation = false;
  bool batch_norm_uses_cudnn = true;
  bool in_place_activations = false;      ///< where the network says so
  bool multi_tensor_optimizer = false;    ///< one launch for many parameters (foreach, fused)
  bool zeroes_gradients = false;          ///< a memset or multiply per parameter and step
  bool accumulates_weight_gradients = false;

  // Memory.
  Bytes allocator_block{};           ///< sizes are rounded up to this
  Bytes allocator_large_segment{};   ///< large requests are carved from segments of this size
  double pool_fraction = 0.0;        ///< share of free device memory grabbed at start (TensorFlow); 0 = on demand
  Bytes context_memory{};            ///< CUDA context with the library's kernels loaded

  std::vector<SpecValue> values;     ///< every value with its source or data set
};

}  // namespace tracecast
