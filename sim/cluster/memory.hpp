#pragma once
#include <optional>
#include <span>

#include "hwspecs/framework_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/graph.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Device memory by what it holds.
struct MemoryByClass {
  Bytes weights{};  ///< weights, buffers, and the half-precision copies that mixed precision keeps
  Bytes gradients{};    ///< gradients of weights
  Bytes optimizer{};    ///< optimizer state
  Bytes activations{};  ///< inputs, activations and their gradients
  Bytes workspace{};    ///< scratch of the running op
  Bytes
      pool{};  ///< what the framework's allocator holds beyond that: rounding, fragmentation, reserve
  Bytes context{};  ///< CUDA context and loaded library kernels
  /// All but pool and context: what a perfect allocator would need.
  [[nodiscard]] Bytes live() const {
    return weights + gradients + optimizer + activations + workspace;
  }
  [[nodiscard]] Bytes total() const { return live() + pool + context; }
};

/// Memory of one step on one GPU.
struct MemoryPlan {
  MemoryByClass by_class;       ///< at the moment of the peak
  Bytes peak_live{};            ///< most bytes of live tensors and workspace at any moment
  Bytes device_used{};          ///< what nvidia-smi would show: by_class.total()
  Bytes capacity{};             ///< of the device
  bool fits = true;             ///< the framework needs no more than the device has
  std::optional<OpId> peak_op;  ///< runs at the peak; nothing in a graph without ops
  /// Capacity less what is needed (less than `device_used` where a framework reserves more).
  [[nodiscard]] Bytes headroom() const { return capacity - needed; }
  Bytes needed{};
};

/// Bytes of one element of `tensor` under a precision mode. Mixed precision keeps weights, their
/// gradients and optimizer state in FP32 and the rest in 16 bits.
[[nodiscard]] Bytes element_size(const Tensor& tensor, PrecisionMode precision);

/// Peak memory by liveness over the order of execution.
/// Weights, buffers, optimizer state and inputs live all the time. Any other tensor lives from the op
/// that writes it to the last op that reads it; the graph's outputs to the end; gradients of weights
/// to the end when the framework keeps them between steps (`zeroes_gradients`). Views, and what the
/// framework does in place, share the memory of their first input. `workspaces[i]`: scratch of op i
/// while it runs (empty: none). Every tensor is rounded up to the allocator's block.
/// The allocator's overhead comes from replaying the step on `CachingAllocator`, or is the reserve of
/// a framework that takes a share of the device at start (`pool_fraction`).
[[nodiscard]] MemoryPlan plan_memory(const NetworkGraph& graph, std::span<const Bytes> workspaces,
                                     const FrameworkProfile& framework, const GpuSpec& gpu,
                                     PrecisionMode precision);

}  // namespace tracecast
