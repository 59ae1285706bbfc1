#pragma once
#include <span>
#include <vector>

#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "models/lowering/gpu_traits.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

struct LoweringOptions {
  PrecisionMode precision = PrecisionMode::Fp32;
  /// Int8 leaves the first and the last layer in a wider format; false for single layers.
  bool wide_ends = true;
};

/// Every op of `graph` (forward, or a training graph) as the kernels that could run for it under
/// this framework: which algorithms exist for a shape, pass, precision and architecture, with their
/// workspace. Of the GPU it knows what is legal (architecture, units), never the speed: GPUs of
/// like traits are lowered for alike. Pure; ops keep the graph's order; updates that the framework
/// launches together stand under the first of them, and the others are left out. Batch norm
/// computes statistics in training mode and when the graph has any backward or update op. A
/// framework with a compiler fuses ops: an op that joined another kernel has no kernels
/// (models/lowering/fusion.hpp).
[[nodiscard]] LoweredStep lower(const NetworkGraph& graph, const FrameworkProfile& framework,
                                const GpuTraits& gpu, const LoweringOptions& options);

/// The same graph as the kernels of `lower` read and write it: with a compiler, tensors that never
/// reach memory have neither writer nor reader, and an op has the operands and results of the
/// kernels that stand with it. Same ops and tensors in the same order. For plans of memory.
[[nodiscard]] NetworkGraph graph_in_memory(const NetworkGraph& graph,
                                           const FrameworkProfile& framework, const GpuTraits& gpu,
                                           const LoweringOptions& options);

/// Bytes of one element of every tensor in memory under a precision mode: what plans of memory and
/// copies of the input need. Integers keep their own size.
[[nodiscard]] std::vector<Bytes> element_sizes(const NetworkGraph& graph,
                                               const FrameworkProfile& framework,
                                               const GpuTraits& gpu, PrecisionMode precision);

/// Host time for one op before its first launch: by pass, more where the op calls cuDNN or cuBLAS
/// or has several results and weights (layer norm). In training a batch norm's updates may be ops
/// too (`batch_norm_updates_are_ops`). Launches come on top. `spares_library`: as LoweredOp says.
[[nodiscard]] Seconds dispatch_time(const Op& op, const FrameworkProfile& framework,
                                    bool is_training, bool spares_library = false);

/// Host time of the casts among an op's kernels. Eager mixed precision calls `to` for each weight
/// and input before the op: an op like any other. Where a graph is rewritten (`reuses_casts`), a
/// weight's cast waits for nothing and other threads of the executor issue it. Source: PyTorch,
/// aten/src/ATen/autocast_mode.cpp, cached_cast, and its gradient, ToCopyBackward; Apex patches
/// functions so, too.
[[nodiscard]] Seconds cast_time(const Op& op, std::span<const Kernel> kernels,
                                const FrameworkProfile& framework);

/// Host time of another view of a tensor, which has no kernel; zero of other ops, such as what is
/// fused into another one.
[[nodiscard]] Seconds view_time(const Op& op, const FrameworkProfile& framework);

/// Whether the framework leaves this pooling, or its gradient, to the host (HostPooling).
[[nodiscard]] bool pools_on_host(const Op& op, const FrameworkProfile& framework);
/// Host time of such a pooling: what it reads comes from the device, `cells` of windows, its result
/// goes back. Max pooling's gradient has the image at hand already, where the forward pass left it.
[[nodiscard]] Seconds host_pooling_time(const NetworkGraph& graph, const Op& op,
                                        const HostPooling& host);

/// All candidates of one convolution pass that this cuDNN (major.minor) has, for callers that price
/// single layers (validation, calibration); 99 = the newest.
[[nodiscard]] std::vector<Candidate> convolution_candidates(const ConvAttributes& shape, Pass pass,
                                                            PrecisionMode precision,
                                                            ImageLayout layout,
                                                            const GpuTraits& gpu,
                                                            double cudnn_version = 99);

}  // namespace tracecast
