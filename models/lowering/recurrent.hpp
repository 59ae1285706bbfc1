#pragma once
#include <vector>

#include "models/lowering/gpu_traits.hpp"
#include "models/lowering/layers.hpp"

namespace tracecast::lowering {

/// Recurrent layers as a library runs them, one candidate per algorithm:
/// - StepByStep: per layer and direction one GEMM for the inputs of all steps; then for every step
/// a GEMM of
///   state and weights and one elementwise kernel. Layers of one direction run as a wavefront
///   (layer l does step t beside layer l + 1 at t - 1) and directions side by side, where the
///   framework uses streams. Backward: the same loops with gradients, then one GEMM per layer for
///   dX, and one per weight for all steps. Source: Appleyard et al., arXiv 1604.01946.
/// - Persistent, in place of StepByStep: one kernel for all steps, where is_persistent() holds.
/// At most about 200 records stand for a loop: longer ones are reported several steps at a time.
[[nodiscard]] std::vector<Candidate> lower_recurrent(const Context& context, const Op& op,
                                                     const GpuTraits& gpu);

/// Whether PyTorch would ask cuDNN for a kernel that keeps the weights on chip: 16-bit data on
/// tensor cores, one layer, one direction, widths in multiples of 128 up to 1024, and a batch and
/// length where it measured a gain; not on Turing, small Ampere chips or before Volta. Source:
/// PyTorch 2.x, aten/src/ATen/native/cudnn/RNN.cpp, get_algo, use_persist_common_heuristics,
/// use_persist_device_heuristics.
[[nodiscard]] bool is_persistent(const RecurrentAttributes& a, const Formats& formats,
                                 const GpuTraits& gpu);

}  // namespace tracecast::lowering
