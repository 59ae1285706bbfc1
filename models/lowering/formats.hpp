#pragma once
#include <optional>

#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "models/lowering/gpu_traits.hpp"

namespace tracecast::lowering {

/// Number formats of a step: what the user's precision mode becomes on one GPU.
struct Formats {
  Precision storage = Precision::Fp32;  ///< activations and their gradients in memory
  /// Of activations and gradients without Tensor::is_wide, where that mark decides.
  std::optional<Precision> unmarked_storage{};
  Precision weights = Precision::Fp32;  ///< weights, their gradients and optimizer states in memory
  Precision operands = Precision::Fp32;  ///< what GEMMs read; cast before where not as stored
  Precision math = Precision::Fp32;      ///< arithmetic of GEMMs and convolutions
  MathUnit unit = MathUnit::CudaCore;    ///< where that arithmetic runs
  Precision cuda_core_math =
      Precision::Fp32;  ///< arithmetic of the same GEMMs off the tensor cores

  /// Attention of 32-bit operands on tensor cores: each operand as the sum of two tf32 values,
  /// three GEMMs for one.
  bool splits_attention = false;
  WeightFormat gemm_weights = WeightFormat::AsOperands;
  bool weights_are_ready = false;      ///< kept as GEMMs read them: made so before the first step
  std::optional<GemmRecipe> recipe{};  ///< of training: how operands get into their format

  /// Weights are kept wider than they are used: a cast per weight and step, and one per weight
  /// gradient.
  [[nodiscard]] bool casts_weights() const {
    return !weights_are_ready && element_size(weights) != element_size(storage);
  }
  /// GEMMs read narrower operands than memory holds: a cast per operand.
  [[nodiscard]] bool casts_operands() const {
    return element_size(operands) != element_size(storage);
  }
};

/// Formats for `mode` on `gpu`, by the peaks that its spec states and by nothing else:
///   fp32        all fp32, CUDA cores
///   tf32        fp32 in memory, tf32 on tensor cores; without them fp32
///   amp         fp16 in memory, weights and states fp32
///   fp16, bf16  everything in that format
///   fp8         bf16 in memory, GEMMs of fp8 operands with bf16 results
///   int8        everything in one byte (inference)
///   fp8_block   bf16 in memory, weights and GEMMs in fp8 with scales per block (inference)
///   nvfp4, mxfp4  the same in fp4
///   int8_wo, int4_wo  16 bits in memory and in GEMMs, weights in 8 or 4 bits (inference)
/// Half-width arithmetic runs on tensor cores where there are any of that format; else on CUDA
/// cores where their half rate exceeds the fp32 rate (GP100, not GP102); else as fp32 arithmetic on
/// half-width data. Attention in one kernel of 32-bit operands runs on tensor cores that take tf32,
/// whatever the GEMMs' mode (PyTorch 2 source, mem_eff_attention/gemm_kernel_utils.h:
/// OpMultiplyAddFastF32). A mode that the GPU lacks altogether is replaced before
/// (choose_precision).
[[nodiscard]] Formats choose_formats(PrecisionMode mode, const GpuTraits& gpu);

/// `formats` with GEMMs as a recipe of training has them, on a GPU that may lack its format: then
/// they stay. Block sums off the tensor cores are for GPUs whose tensor cores do not scale blocks
/// (before Blackwell, which has FP4).
[[nodiscard]] Formats with_recipe(Formats formats, const GemmRecipe& recipe, const GpuTraits& gpu);

/// Bytes of one element of a tensor under these formats.
[[nodiscard]] Bytes element_bytes(const Tensor& tensor, const Formats& formats);
/// Bytes of a whole tensor under these formats.
[[nodiscard]] Bytes tensor_bytes(const Tensor& tensor, const Formats& formats);

}  // namespace tracecast::lowering
