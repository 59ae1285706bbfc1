#include "models/lowering/formats.hpp"

#include <algorithm>

namespace tracecast::lowering {
namespace {

/// Arithmetic on `precision` data: tensor cores, then faster CUDA cores, then fp32.
void choose_math(Formats& formats, Precision precision, const GpuTraits& gpu) {
  formats.operands = formats.storage;
  if (gpu.outruns_fp32(precision)) formats.cuda_core_math = precision;
  if (gpu.has(precision, MathUnit::TensorCore)) {
    formats.math = precision;
    formats.unit = MathUnit::TensorCore;
  } else {
    formats.math = formats.cuda_core_math;
    formats.unit = MathUnit::CudaCore;
  }
}

/// bf16 in memory, fp16 where the GPU has no fast bf16.
void choose_sixteen(Formats& formats, const GpuTraits& gpu) {
  const Precision sixteen =
      gpu.has(Precision::Bf16, MathUnit::TensorCore) ? Precision::Bf16 : Precision::Fp16;
  formats.storage = formats.weights = sixteen;
  choose_math(formats, sixteen, gpu);
}

/// 16 bits in memory, GEMMs and weights narrower.
void choose_low_precision(Formats& formats, Precision low_precision, const GpuTraits& gpu) {
  choose_sixteen(formats, gpu);
  choose_math(formats, low_precision, gpu);
  formats.operands = formats.weights = low_precision;
  formats.weights_are_ready = true;
}

}  // namespace

Formats choose_formats(PrecisionMode mode, const GpuTraits& gpu) {
  Formats formats;
  switch (mode) {
    case PrecisionMode::Fp32:
      break;
    case PrecisionMode::Tf32:
      choose_math(formats, Precision::Tf32, gpu);
      break;
    case PrecisionMode::Amp:
      formats.storage = Precision::Fp16;
      choose_math(formats, Precision::Fp16, gpu);
      break;
    case PrecisionMode::Fp16:
      formats.storage = formats.weights = Precision::Fp16;
      choose_math(formats, Precision::Fp16, gpu);
      break;
    case PrecisionMode::Bf16:
      formats.storage = formats.weights = Precision::Bf16;
      choose_math(formats, Precision::Bf16, gpu);
      break;
    case PrecisionMode::Fp8:
      formats.storage = formats.weights = Precision::Bf16;
      choose_math(formats, Precision::Fp8, gpu);
      formats.operands = Precision::Fp8;
      break;
    case PrecisionMode::Int8:
      formats.storage = formats.weights = Precision::Int8;
      choose_math(formats, Precision::Int8, gpu);
      break;
    case PrecisionMode::Fp8Block:
      choose_low_precision(formats, Precision::Fp8, gpu);
      formats.gemm_weights = WeightFormat::Blocks;
      break;
    case PrecisionMode::Nvfp4:
    case PrecisionMode::Mxfp4:
      choose_low_precision(formats, Precision::Fp4, gpu);
      break;
    case PrecisionMode::Int8Weights:
      choose_sixteen(formats, gpu);
      formats.weights = Precision::Int8;
      formats.gemm_weights = WeightFormat::Int8;
      formats.weights_are_ready = true;
      break;
    case PrecisionMode::Int4Weights:
      choose_sixteen(formats, gpu);
      formats.weights = Precision::Fp4;  // half a byte, whatever the code
      formats.gemm_weights = WeightFormat::Int4;
      formats.weights_are_ready = true;
      break;
  }
  formats.splits_attention =
      formats.storage == Precision::Fp32 && gpu.has(Precision::Tf32, MathUnit::TensorCore);
  return formats;
}

Formats with_recipe(Formats formats, const GemmRecipe& recipe, const GpuTraits& gpu) {
  if (!gpu.has(recipe.math, MathUnit::TensorCore)) return formats;
  choose_math(formats, recipe.math, gpu);
  formats.operands = recipe.math;
  if (recipe.sums_by_blocks && !gpu.has(Precision::Fp4, MathUnit::TensorCore))
    formats.gemm_weights = WeightFormat::Blocks;
  formats.recipe = recipe;
  return formats;
}

Bytes element_bytes(const Tensor& tensor, const Formats& formats) {
  if (tensor.is_integer) return Bytes(tensor.integer_bytes);
  switch (tensor.role) {
    case TensorRole::Weight:
    case TensorRole::Buffer:
    case TensorRole::Store:
    case TensorRole::WeightGradient:
    case TensorRole::OptimizerState:
      return tensor.is_wide ? max(element_size(formats.weights), element_size(Precision::Fp32))
                            : element_size(formats.weights);
    case TensorRole::Input:
    case TensorRole::Activation:
    case TensorRole::Gradient:
      break;
  }
  if (tensor.is_wide) return std::max(element_size(formats.storage), element_size(Precision::Fp32));
  return element_size(formats.unmarked_storage.value_or(formats.storage));
}

Bytes tensor_bytes(const Tensor& tensor, const Formats& formats) {
  return element_bytes(tensor, formats) * static_cast<double>(element_count(tensor.shape));
}

}  // namespace tracecast::lowering
