#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/attention_parameters.hpp"
#include "hwspecs/tensor_gemm_parameters.hpp"

namespace tracecast {

/// What the GEMMs of a MoE multiply. Named as the tables name them where there is no other word.
enum class ExpertFormat {
  Half,
  Fp8,             ///< one scale per tensor or channel
  Fp8Block,        ///< scales per 128 values
  Fp4,             ///< nvfp4 on both sides
  Int4Weights,     ///< 16-bit GEMMs of 4-bit integers
  Fp4Weights,      ///< 16-bit GEMMs of mxfp4 weights
  Fp4WeightsFp8,   ///< 8-bit GEMMs of mxfp4 weights
  Int4WeightsFp8,  ///< 8-bit GEMMs of 4-bit integers
};
inline constexpr std::size_t kExpertFormatCount = 8;
[[nodiscard]] std::string_view to_string(ExpertFormat format);
/// As GEMMs of the vendor's library: what peak and energy an operation has.
[[nodiscard]] GemmFormat gemms_of(ExpertFormat format);
/// Bytes of a value of the activations that a GEMM reads and of its weights, scales included.
[[nodiscard]] double expert_activation_bytes(ExpertFormat format);
[[nodiscard]] double expert_weight_bytes(ExpertFormat format);

/// Factors by engine, generation and format.
struct ByEngineKindExperts {
  std::array<std::array<std::array<double, kExpertFormatCount>, kEngineKindCount>, kGemmEngineCount>
      values;
  ByEngineKindExperts() {
    for (auto& engine : values) engine.fill(ones<kExpertFormatCount>());
  }
};

/// MoE networks on one rank; formulas in sim/cost/experts.hpp.
struct ExpertParameters {
  double efficiency = 0.65;              ///< of the format's peak, large tiles
  double stream_bytes_per_clock = 0.15;  ///< that a block draws, per KiB of its SM's shared memory
  double dram_efficiency = 0.82;
  double l2_share = 0.5;
  double l2_bytes_per_clock = 30;
  double wave_quantization = 0.4;
  double block_depth = 50;     ///< elements of k whose time a block needs to fill its pipeline
  double operand_edge = 5;     ///< as TensorGemmParameters::operand_edge
  double block_cycles = 1500;  ///< to start and end a block
  double clock_exponent = 1;   ///< calls take (2 GHz / clock)^this as long
  /// Share of ExpertsWork::perhaps_strays that figures of several campaigns hold.
  double stray = 0.8;
  std::array<double, kExpertFormatCount> efficiency_by = ones<kExpertFormatCount>();
  std::array<double, kExpertFormatCount> stream_by = ones<kExpertFormatCount>();
  std::array<double, kEngineKindCount> efficiency_of = ones<kEngineKindCount>();
  std::array<double, kEngineKindCount> stream_of = ones<kEngineKindCount>();
  std::array<double, kGemmEngineCount> call_us{25, 25, 25};
  /// Memory traffic of permuting, quantising, activating and adding up, over one pass each.
  std::array<double, kGemmEngineCount> traffic = ones<kGemmEngineCount>();
  std::array<double, kGemmEngineCount> route =
      ones<kGemmEngineCount>();  ///< cycles of an SM per token and expert
  std::array<double, kGemmEngineCount> expert =
      ones<kGemmEngineCount>();  ///< 100 cycles per expert with tokens
  std::array<double, kGemmEngineCount> pair =
      ones<kGemmEngineCount>();  ///< 100 cycles of an SM per token's expert
  /// Share of other ranks' rows that an engine's kernels around the GEMMs pass over all the same.
  std::array<double, kGemmEngineCount> passed{0.05, 1, 1};
  double passed_whole =
      1;  ///< on that, of kernels for 4-bit floats, which treat other ranks' tokens as absent
  double alone = 1;       ///< of the traffic around GEMMs, what is left where they are called alone
  ByEngineKind stray_of;  ///< on `stray`
  ByEngineKind expert_of;  ///< on `expert` and `pair`
  ByEngineKindExperts call_of, efficiency_at, stream_at;
};

/// One kernel that writes 16-bit values as 8-bit floats; formulas in sim/cost/quantization.hpp.
struct QuantizationParameters {
  double l2_share = 0.8;
  double l2_sharpness = 3;  ///< exponent of what stays in L2
  double dram_efficiency = 0.8;
  double l2_bytes_per_clock = 36;
  double values_per_clock = 16;     ///< that an SM converts
  double row_values_per_clock = 8;  ///< that a single block converts, in kernels of a block per row
  double clock_exponent = 0.6;
  std::array<double, kGemmEngineCount> call_us{2.5, 6, 3};
  std::array<double, kGemmEngineCount> traffic =
      ones<kGemmEngineCount>();  ///< over one read and one write
  std::array<double, kGemmEngineCount> cache = ones<kGemmEngineCount>();  ///< on l2_bytes_per_clock
  ByEngineKind call_of, values_of;
};

struct MoeParameters {
  ExpertParameters experts;
  QuantizationParameters quantization;
};

/// A parameter of the struct by name, "experts.stray".
struct MoeSlot {
  std::string name;
  double low = 0, high = 0;
  std::function<double&(MoeParameters&)> find;
  bool is_factor = false;  ///< may be missing from a profile: 1
};
[[nodiscard]] std::vector<MoeSlot> moe_slots();

}  // namespace tracecast
