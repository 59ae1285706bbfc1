#pragma once
#include <optional>

#include "models/kernel.hpp"
#include "sim/cost/tile_gemm.hpp"

namespace tracecast::cost {

/// Roofs of a convolution that runs as one kernel (Kernel with ConvWork), by algorithm and pass.
///
/// Implicit GEMM (also precomputed and explicit), forward:  m = n p q,  n = k,      k = c/g r s
///   backward data, gathered (precomputed):                 m = n h w,  n = c/g,    k = k/g r s
///   backward data, scattered (implicit):                   m = n p q,  n = c/g r s, k = k/g
///   backward weights:                                      m = k/g,    n = c/g r s, k = n p q,
///   split-K allowed
/// one GEMM per group; 1x1 filters are plain GEMMs. Tiles as in tile_gemm.hpp, efficiency as in
/// issue.hpp: compiled_issue for implicit and explicit GEMM, assembled_issue (Kepler:
/// compiled_issue too) for the others and for all gradients of weights. Gathering through a stride
/// multiplies the zeros between the outputs. Scattering does not, but every GEMM's m n results are
/// added to the image in L2: compute += m n scatter_bytes / l2 rate, after a block's last step.
/// cuDNN has both (CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 and _0: "the sum is done using the atomic add
/// operation"). Weight gradients of 1x1 filters lose pointwise_backward_weights, no filter window
/// to reuse the loaded pixels for, and are cut into slices of pixels until each SM has four blocks,
/// whose sums pass through memory (notes/0004). Tensor cores have factors of their own,
/// tensor.backward_data and tensor.backward_weights, the latter for all filters. They gather
/// without the zeros: k = ceil_slice(k/g) ceil(r/stride) ceil(s/stride), the most taps that a cell
/// of the image meets, for all cells that any tap reaches; the others are cleared before
/// (notes/0004). Kernels of cuDNN before 6 lose old_kernels. On tensor cores forward GEMMs may be
/// split too: 5x5 and 3x3 layers of few pixels run at 40 to 50 TFLOP/s on V100 (DeepBench), four
/// times what unsplit blocks reach.
///
/// Winograd fused F(2x2,3x3), forward and backward data (channels swapped):
///   blocks = ceil(n/nb) ceil(p/th) ceil(q/tw) ceil(k/32) over the library's block shapes (nb, th,
///   tw) of 128 outputs busy    = 2 * 32 * 128 * 9/2.25 * waves / (arithmetic/SMs * efficiency);
///   wait = winograd_step_cycles / clock compute = ceil8(c) * (busy^3 + (wait * max(blocks/SMs / 2,
///   1))^3)^(1/3) + block_prologue(128^2 results, waves)
/// Block shapes, as the kernels' names say them (tile148, tile228, ...): (1,8,16) everywhere;
/// Maxwell and Pascal also (2,4,16) (4,2,16), from cuDNN 8 on (2,8,8) (4,4,8) too; Ampere (4,8,4).
/// `efficiency` is that of the best inner loop with winograd_issue cycles more, for the additions
/// of the transforms: as many whoever wrote the loop.
///
/// Direct (depthwise): direct_cycles of an SM per output and tap of the filter, times the stride,
/// whose loads take as many more transactions. Two GPUs apart by six years agree on the cycles: the
/// loads and their addresses, not the lanes, decide. Gradients take more a tap, and that of the
/// data looks at every tap from every cell of the image, whatever the stride. Winograd non-fused
/// and FFT are lowered as transforms and GEMMs; given as one kernel they are priced from the same
/// sums. Sources: COST_MODEL.md section 3 (grids checked there); Lavin and Gray, CVPR 2016, for
/// F(2x2,3x3).
[[nodiscard]] Roofs estimate_convolution(const Kernel& kernel, const ConvWork& work,
                                         const SustainedGpu& machine, const GpuSpec& gpu,
                                         const CostProfile& profile);

/// A forward convolution of an engine's layer on tensor cores as the GEMM of its im2col matrix:
/// engines compile both from one family of kernels (sm80_xmma_gemm_...,
/// sm80_xmma_fprop_implicit_gemm_...), so the law of GEMMs holds (tensor_gemm.hpp), memory holding
/// each value of the image once. Nothing of others.
[[nodiscard]] std::optional<TensorGemm> as_tensor_gemm(const Kernel& kernel, const ConvWork& work,
                                                       GemmFormat format,
                                                       const CostProfile& profile);

}  // namespace tracecast::cost
