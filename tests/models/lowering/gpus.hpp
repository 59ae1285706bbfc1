#pragma once
#include "hwspecs/gpu_spec.hpp"

/// Invented GPUs that differ in the units they have; nothing else of a spec matters to lowering.
namespace tracecast::test {

inline GpuSpec gpu_with(Architecture architecture, std::vector<PeakRate> peaks) {
  GpuSpec gpu;
  gpu.id = "invented";
  gpu.architecture = architecture;
  gpu.peaks = std::move(peaks);
  return gpu;
}

/// CUDA cores only.
inline GpuSpec kepler() {
  return gpu_with(Architecture::Kepler, {{Precision::Fp32, MathUnit::CudaCore, 4.0_TFLOPps}});
}
/// Half arithmetic at twice the fp32 rate.
inline GpuSpec pascal_with_fast_half() {
  return gpu_with(Architecture::Pascal, {{Precision::Fp32, MathUnit::CudaCore, 10.0_TFLOPps},
                                         {Precision::Fp16, MathUnit::CudaCore, 20.0_TFLOPps}});
}
/// Half arithmetic at 1/64 of the fp32 rate, int8 dot products at four times.
inline GpuSpec pascal_with_slow_half() {
  return gpu_with(Architecture::Pascal, {{Precision::Fp32, MathUnit::CudaCore, 10.0_TFLOPps},
                                         {Precision::Fp16, MathUnit::CudaCore, 0.16_TFLOPps},
                                         {Precision::Int8, MathUnit::CudaCore, 40.0_TFLOPps}});
}
/// Tensor cores for half precision.
inline GpuSpec volta() {
  return gpu_with(Architecture::Volta, {{Precision::Fp32, MathUnit::CudaCore, 15.0_TFLOPps},
                                        {Precision::Fp16, MathUnit::CudaCore, 30.0_TFLOPps},
                                        {Precision::Fp16, MathUnit::TensorCore, 120.0_TFLOPps}});
}
/// Tensor cores for tf32, half, bfloat16 and int8.
inline GpuSpec ampere() {
  return gpu_with(Architecture::Ampere, {{Precision::Fp32, MathUnit::CudaCore, 19.0_TFLOPps},
                                         {Precision::Tf32, MathUnit::TensorCore, 156.0_TFLOPps},
                                         {Precision::Fp16, MathUnit::TensorCore, 312.0_TFLOPps},
                                         {Precision::Bf16, MathUnit::TensorCore, 312.0_TFLOPps},
                                         {Precision::Int8, MathUnit::TensorCore, 624.0_TFLOPps}});
}

/// As Ampere, with fp8.
inline GpuSpec hopper() {
  GpuSpec gpu = ampere();
  gpu.architecture = Architecture::Hopper;
  gpu.peaks.push_back({Precision::Fp8, MathUnit::TensorCore, 624.0_TFLOPps});
  return gpu;
}

}  // namespace tracecast::test
