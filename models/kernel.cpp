#include "models/kernel.hpp"

namespace tracecast {

std::string_view to_string(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::Convolution:
      return "convolution";
    case KernelClass::Gemm:
      return "gemm";
    case KernelClass::BatchedGemm:
      return "batched_gemm";
    case KernelClass::GroupedGemm:
      return "grouped_gemm";
    case KernelClass::Attention:
      return "attention";
    case KernelClass::Pooling:
      return "pooling";
    case KernelClass::Normalization:
      return "normalization";
    case KernelClass::Elementwise:
      return "elementwise";
    case KernelClass::Softmax:
      return "softmax";
    case KernelClass::Reduction:
      return "reduction";
    case KernelClass::Transpose:
      return "transpose";
    case KernelClass::Embedding:
      return "embedding";
    case KernelClass::Recurrent:
      return "recurrent";
    case KernelClass::Optimizer:
      return "optimizer";
    case KernelClass::Copy:
      return "copy";
    case KernelClass::Memset:
      return "memset";
    case KernelClass::Collective:
      return "collective";
    case KernelClass::Other:
      return "other";
  }
  return "?";
}

std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::None:
      return "none";
    case Algorithm::ImplicitGemm:
      return "implicit_gemm";
    case Algorithm::ImplicitPrecomputedGemm:
      return "implicit_precomputed_gemm";
    case Algorithm::ExplicitGemm:
      return "explicit_gemm";
    case Algorithm::Direct:
      return "direct";
    case Algorithm::Fft:
      return "fft";
    case Algorithm::FftTiling:
      return "fft_tiling";
    case Algorithm::WinogradFused:
      return "winograd_fused";
    case Algorithm::WinogradNonfused:
      return "winograd_nonfused";
    case Algorithm::StepByStep:
      return "step_by_step";
    case Algorithm::Persistent:
      return "persistent";
  }
  return "?";
}

}  // namespace tracecast
