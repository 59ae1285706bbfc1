#include "models/lowering/gpu_traits.hpp"

namespace tracecast {

GpuTraits::GpuTraits(const GpuSpec& gpu) : architecture_(gpu.architecture) {
  constexpr int kLeastSms = 98;
  is_large_ = gpu.sm_count >= kLeastSms && gpu.compute_capability % 10 != 6;
  const auto fp32 = gpu.find_peak(Precision::Fp32, MathUnit::CudaCore);
  for (const Precision precision :
       {Precision::Fp64, Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16,
        Precision::Fp8, Precision::Int8, Precision::Fp4}) {
    for (const MathUnit unit : {MathUnit::CudaCore, MathUnit::TensorCore}) {
      const auto peak = gpu.find_peak(precision, unit);
      if (!peak) continue;
      units_ |= bit(precision, unit);
      if (unit == MathUnit::CudaCore && fp32 && *peak > *fp32) fast_ |= bit(precision, unit);
    }
  }
}

}  // namespace tracecast
