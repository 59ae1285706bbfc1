#pragma once
#include <string>

#include "hwspecs/software/framework_profile.hpp"
#include "models/lowering/gpu_traits.hpp"

namespace tracecast {

/// The precision mode that runs on a GPU when another one was asked for, and why.
struct PrecisionChoice {
  PrecisionMode mode{};
  std::string fallback{};  ///< why another mode runs; empty: the mode is the one asked for
  std::string note{};      ///< what the mode means on this GPU, where that may surprise
};

/// What libraries do with `asked` on a GPU, by the units that its spec states:
///   tf32   without such tensor cores fp32: cuDNN and cuBLAS ignore the setting
///   amp, fp16, bf16
///          always run; without arithmetic of that width data are kept in 16 bits and computed in
///          fp32 (cuDNN's pseudo-half configuration, cublasGemmEx)
///   fp8    without such tensor cores (before Ada and Hopper) bf16, before Ampere fp16: Transformer
///          Engine asks for compute capability 8.9
///   int8   without dp4a (before 6.1, and on GP100) or int8 tensor cores fp32, as TensorRT falls
///   back
/// Throws InputError for training in int8, which no library does.
[[nodiscard]] PrecisionChoice choose_precision(PrecisionMode asked, bool trains,
                                               const GpuTraits& gpu);

/// What a recipe of GEMMs in `math` (8 or 4 bits) runs as: mode Fp8, which keeps tensors in 16 bits
/// and takes the recipe's GEMMs, or what `choose_precision` makes of Fp8 without such tensor cores.
/// Without 4-bit tensor cores (before Blackwell) its fallback says that GEMMs run in 8 bits.
[[nodiscard]] PrecisionChoice choose_recipe(Precision math, const GpuTraits& gpu);

}  // namespace tracecast
