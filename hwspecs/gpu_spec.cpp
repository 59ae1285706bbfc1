#include "hwspecs/gpu_spec.hpp"

#include "sim/base/error.hpp"

namespace tracecast {

std::string_view to_string(Architecture architecture) {
  switch (architecture) {
    case Architecture::Kepler:
      return "kepler";
    case Architecture::Maxwell:
      return "maxwell";
    case Architecture::Pascal:
      return "pascal";
    case Architecture::Volta:
      return "volta";
    case Architecture::Turing:
      return "turing";
    case Architecture::Ampere:
      return "ampere";
    case Architecture::Ada:
      return "ada";
    case Architecture::Hopper:
      return "hopper";
    case Architecture::Blackwell:
      return "blackwell";
  }
  return "unknown";
}

std::string_view to_string(MemoryType type) {
  switch (type) {
    case MemoryType::Gddr5:
      return "gddr5";
    case MemoryType::Gddr5x:
      return "gddr5x";
    case MemoryType::Gddr6:
      return "gddr6";
    case MemoryType::Gddr6x:
      return "gddr6x";
    case MemoryType::Hbm2:
      return "hbm2";
    case MemoryType::Hbm2e:
      return "hbm2e";
    case MemoryType::Hbm3:
      return "hbm3";
    case MemoryType::Hbm3e:
      return "hbm3e";
    case MemoryType::Gddr7:
      return "gddr7";
  }
  return "unknown";
}

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::Fp64:
      return "fp64";
    case Precision::Fp32:
      return "fp32";
    case Precision::Tf32:
      return "tf32";
    case Precision::Fp16:
      return "fp16";
    case Precision::Bf16:
      return "bf16";
    case Precision::Fp8:
      return "fp8";
    case Precision::Int8:
      return "int8";
    case Precision::Fp4:
      return "fp4";
  }
  return "unknown";
}

std::string_view to_string(FormFactor form) {
  switch (form) {
    case FormFactor::Pcie:
      return "pcie";
    case FormFactor::Sxm2:
      return "sxm2";
    case FormFactor::Sxm3:
      return "sxm3";
    case FormFactor::Sxm4:
      return "sxm4";
    case FormFactor::Sxm5:
      return "sxm5";
    case FormFactor::Sxm6:
      return "sxm6";
    case FormFactor::Superchip:
      return "superchip";
  }
  return "unknown";
}

std::string_view to_string(MathUnit unit) {
  switch (unit) {
    case MathUnit::CudaCore:
      return "cuda_core";
    case MathUnit::TensorCore:
      return "tensor_core";
  }
  return "unknown";
}

std::optional<FlopsPerSecond> GpuSpec::find_peak(Precision precision, MathUnit unit) const {
  for (const PeakRate& peak : peaks) {
    if (peak.precision == precision && peak.unit == unit) return peak.rate;
  }
  return std::nullopt;
}

FlopsPerSecond GpuSpec::peak_fp32() const {
  const auto peak = find_peak(Precision::Fp32, MathUnit::CudaCore);
  TRACECAST_CHECK(peak.has_value(), "a valid GPU spec has an FP32 peak on CUDA cores");
  return *peak;
}

BytesPerSecond GpuSpec::effective_bandwidth() const {
  return ecc_default_on ? dram_bandwidth * ecc_bandwidth_fraction : dram_bandwidth;
}

int GpuSpec::fp32_lanes_per_scheduler() const { return fp32_lanes_per_sm / warp_schedulers_per_sm; }

}  // namespace tracecast
