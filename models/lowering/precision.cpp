#include "models/lowering/precision.hpp"

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Arithmetic in 16 bits that is worth using: tensor cores, or CUDA cores above the fp32 rate.
bool computes_in(const GpuTraits& gpu, Precision precision) {
  return gpu.has(precision, MathUnit::TensorCore) || gpu.outruns_fp32(precision);
}

PrecisionChoice sixteen_bits(PrecisionMode mode, Precision precision, const GpuTraits& gpu) {
  PrecisionChoice choice{.mode = mode};
  if (!computes_in(gpu, precision)) {
    choice.note = precision == Precision::Bf16
                      ? "this GPU has no BF16 arithmetic: kept in 16 bits, computed in FP32"
                      : "this GPU has no fast FP16 arithmetic: kept in 16 bits, computed in FP32";
  }
  return choice;
}

/// Modes whose weights are made narrow before the first step. Without the arithmetic engines widen
/// the weights on the way, as they do for weight-only formats.
PrecisionChoice made_beforehand(PrecisionMode asked, bool trains, const GpuTraits& gpu) {
  if (trains) {
    throw InputError("--precision", std::string(to_string(asked)) + " with a phase that trains",
                     "--phase infer: its weights are made narrow beforehand; or fp8, bf16, amp");
  }
  const bool is_fp4 = asked == PrecisionMode::Nvfp4 || asked == PrecisionMode::Mxfp4;
  if (is_fp4 && !gpu.has(Precision::Fp4, MathUnit::TensorCore)) {
    return {.mode = PrecisionMode::Int4Weights,
            .fallback = "FP4 needs Blackwell: weights in 4 bits, GEMMs in 16 bits instead"};
  }
  if (asked == PrecisionMode::Fp8Block && !gpu.has(Precision::Fp8, MathUnit::TensorCore)) {
    return {.mode = PrecisionMode::Int8Weights,
            .fallback =
                "FP8 needs compute capability 8.9 (Ada, Hopper): weights in 8 bits, "
                "GEMMs in 16 bits instead"};
  }
  return {.mode = asked};
}

}  // namespace

PrecisionChoice choose_precision(PrecisionMode asked, bool trains, const GpuTraits& gpu) {
  switch (asked) {
    case PrecisionMode::Fp32:
      break;
    case PrecisionMode::Tf32:
      if (!gpu.has(Precision::Tf32, MathUnit::TensorCore)) {
        return {.mode = PrecisionMode::Fp32,
                .fallback = "this GPU has no TF32: libraries ignore the setting and run FP32"};
      }
      break;
    case PrecisionMode::Amp:
    case PrecisionMode::Fp16:
      return sixteen_bits(asked, Precision::Fp16, gpu);
    case PrecisionMode::Bf16:
      return sixteen_bits(asked, Precision::Bf16, gpu);
    case PrecisionMode::Fp8: {
      if (gpu.has(Precision::Fp8, MathUnit::TensorCore)) break;
      const bool has_bf16 = computes_in(gpu, Precision::Bf16);
      return {.mode = has_bf16 ? PrecisionMode::Bf16 : PrecisionMode::Fp16,
              .fallback = std::string("FP8 needs compute capability 8.9 (Ada, Hopper): ") +
                          (has_bf16 ? "BF16" : "FP16") + " runs instead"};
    }
    case PrecisionMode::Int8:
      if (trains) {
        throw InputError("--precision", "int8 with a phase that trains",
                         "--phase infer: nothing trains in 8-bit integers; or fp8, bf16, amp");
      }
      if (!gpu.has(Precision::Int8, MathUnit::TensorCore) &&
          gpu.has(Precision::Fp16, MathUnit::TensorCore)) {
        return {.mode = PrecisionMode::Fp16,
                .fallback =
                    "this GPU's tensor cores take no 8-bit integers: the engine's fastest "
                    "layers are in FP16"};
      }
      if (!gpu.has(Precision::Int8, MathUnit::TensorCore) &&
          !gpu.has(Precision::Int8, MathUnit::CudaCore)) {
        return {.mode = PrecisionMode::Fp32,
                .fallback = "this GPU has no 8-bit dot products (dp4a): FP32 runs instead"};
      }
      break;
    case PrecisionMode::Fp8Block:
    case PrecisionMode::Nvfp4:
    case PrecisionMode::Mxfp4:
    case PrecisionMode::Int8Weights:
    case PrecisionMode::Int4Weights:
      return made_beforehand(asked, trains, gpu);
  }
  return {.mode = asked};
}

PrecisionChoice choose_recipe(Precision math, const GpuTraits& gpu) {
  PrecisionChoice choice = choose_precision(PrecisionMode::Fp8, true, gpu);
  if (math == Precision::Fp4 && choice.fallback.empty() &&
      !gpu.has(Precision::Fp4, MathUnit::TensorCore)) {
    choice.fallback = "FP4 needs Blackwell: GEMMs in FP8 with delayed scaling instead";
  }
  return choice;
}

}  // namespace tracecast
