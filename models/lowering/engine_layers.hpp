#pragma once
#include "models/kernel.hpp"
#include "models/lowering/gpu_traits.hpp"
#include "models/lowering/layers.hpp"
#include "models/lowering/precision_plan.hpp"

namespace tracecast::lowering {

/// What the builder of an inference engine makes of a forward pass (FrameworkFusion::layers):
///
///   attention      softmax between two GEMMs of activations, with the scale, the mask and the
///                  moves of heads around it, in one kernel that keeps scores on the SM; where no
///                  such kernel exists (32 bits, before Turing) GEMMs that read heads as they lie
///   siblings       GEMMs with weights over the same input become one
///   epilogues      a chain of elementwise ops runs in the kernel of the GEMM, convolution, norm or
///                  elementwise op before it whose result nothing else reads
///   norms          the sum in front of a norm runs in the norm's kernel, which writes it as well
///                  where something else reads it; so do rows of tables and their sums
///   formats        a kernel writes what its readers take: casts are no kernels
///
/// Kernels of an op that joined another are gone. What is left is marked as chained: each kernel
/// finds in L2 what the one before wrote, as far as it stays.
/// Sources: NVIDIA TensorRT Developer Guide, "Types of Fusions" and "Supported MatMul, Attention
/// Fusions"; NVIDIA/TensorRT, plugin/bertQKVToContextPlugin, plugin/skipLayerNormPlugin,
/// plugin/embLayerNormPlugin (kernels for compute capability 7.5 and later).
void join_layers(const Context& context, const PrecisionPlan& plan, const GpuTraits& gpu,
                 LoweredStep& step);

}  // namespace tracecast::lowering
