#pragma once
#include <cstdint>

#include "hwspecs/gpu_spec.hpp"

namespace tracecast {

/// All that lowering knows of a GPU: which units it has and of which generation it is, never how
/// fast they are. GPUs of like traits share a lowered step.
class GpuTraits {
 public:
  /// Every GPU has its traits; what lowers takes them in its place.
  GpuTraits(const GpuSpec& gpu);  // NOLINT(google-explicit-constructor)

  [[nodiscard]] Architecture architecture() const { return architecture_; }
  [[nodiscard]] bool has(Precision precision, MathUnit unit) const {
    return (units_ & bit(precision, unit)) != 0;
  }
  /// CUDA cores that do more arithmetic in `precision` than in FP32.
  [[nodiscard]] bool outruns_fp32(Precision precision) const {
    return (fast_ & bit(precision, MathUnit::CudaCore)) != 0;
  }
  /// 98 SMs and more, and no compute capability x.6: where PyTorch asks for persistent recurrent
  /// kernels from Ampere on (models/lowering/recurrent.hpp).
  [[nodiscard]] bool is_large() const { return is_large_; }

  friend bool operator==(const GpuTraits&, const GpuTraits&) = default;

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(Precision precision, MathUnit unit) {
    return 1u << (2 * static_cast<unsigned>(precision) + static_cast<unsigned>(unit));
  }

  Architecture architecture_{};
  std::uint32_t units_ = 0, fast_ = 0;  ///< by precision and unit
  bool is_large_ = false;
};

}  // namespace tracecast
