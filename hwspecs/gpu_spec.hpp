#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// NVIDIA GPU generations, in order of age; comparisons mean "at least as new as".
enum class Architecture { Kepler, Maxwell, Pascal, Volta, Turing, Ampere, Ada, Hopper, Blackwell };
enum class MemoryType { Gddr5, Gddr5x, Gddr6, Gddr6x, Hbm2, Hbm2e, Hbm3, Hbm3e, Gddr7 };
/// Number format of an arithmetic operation or of stored data.
enum class Precision { Fp64, Fp32, Tf32, Fp16, Bf16, Fp8, Int8, Fp4 };
/// Which execution unit does the arithmetic.
enum class MathUnit { CudaCore, TensorCore };
/// What a board is plugged into; a superchip is soldered beside its CPU.
enum class FormFactor { Pcie, Sxm2, Sxm3, Sxm4, Sxm5, Sxm6, Superchip };

/// Bytes of one stored element.
[[nodiscard]] constexpr Bytes element_size(Precision precision) {
  switch (precision) {
    case Precision::Fp64:
      return Bytes(8);
    case Precision::Fp32:
    case Precision::Tf32:
      return Bytes(4);
    case Precision::Fp16:
    case Precision::Bf16:
      return Bytes(2);
    case Precision::Fp8:
    case Precision::Int8:
      return Bytes(1);
    case Precision::Fp4:
      return Bytes(0.5);
  }
  return Bytes(4);
}

[[nodiscard]] std::string_view to_string(Architecture architecture);
[[nodiscard]] std::string_view to_string(MemoryType type);
[[nodiscard]] std::string_view to_string(Precision precision);
[[nodiscard]] std::string_view to_string(MathUnit unit);
[[nodiscard]] std::string_view to_string(FormFactor form);

/// Dense arithmetic rate at the boost clock, without sparsity. A multiply-add counts as two
/// operations.
struct PeakRate {
  Precision precision;
  MathUnit unit;
  FlopsPerSecond rate;
};

/// Public facts about one GPU device (of a K80 board: one die). A GpuSpec that exists is valid: the
/// loader refuses missing and absurd values. What is *achieved* of a peak is fitted and lives in a
/// CostProfile.
struct GpuSpec : SpecIdentity {
  FormFactor form_factor = FormFactor::Pcie;
  std::string chip;  ///< die, "GV100": boards with the same one are variants of each other
  Architecture architecture{};
  int compute_capability = 0;  ///< major * 10 + minor
  int release_year = 0;  ///< first sold; decides which software era is assumed when none is given
  /// Marketing name of the process node: 28, 16, 12, 8, 7, 5 (TSMC 4N counts as 5).
  double process_nm = 0;

  int sm_count = 0;
  int fp32_lanes_per_sm = 0;
  int warp_schedulers_per_sm = 0;
  int max_threads_per_sm = 0;
  int max_blocks_per_sm = 0;
  int warp_size = 32;
  int registers_per_sm = 0;      ///< 32-bit registers
  Bytes shared_memory_per_sm{};  ///< most that resident blocks can share
  /// Most that one block can have (opt-in where the architecture asks).
  Bytes shared_memory_per_block{};

  Hertz base_clock{};
  Hertz boost_clock{};
  /// Default application clock of data-centre boards; boost clock elsewhere.
  Hertz application_clock{};
  std::vector<PeakRate> peaks;  ///< at `boost_clock`

  Bytes l2{};
  Bytes memory{};  ///< as addressable by programs with ECC in its default state
  MemoryType memory_type{};
  BytesPerSecond dram_bandwidth{};  ///< theoretical, ECC off
  bool ecc_default_on = false;
  /// Share of `dram_bandwidth` left when ECC is on (1 for HBM: sideband).
  double ecc_bandwidth_fraction = 1.0;
  BytesPerSecond pcie_bandwidth{};    ///< one direction, theoretical payload of generation x lanes
  BytesPerSecond nvlink_bandwidth{};  ///< one direction, all links; zero without NVLink

  Watts tdp{};
  /// The limit that it is sold with, where `tdp` has been set to another; 0: `tdp`.
  Watts rated_power{};
  Watts idle_power{};
  /// Limits that nvidia-smi accepts; absent where no log is known.
  std::optional<Watts> min_power_limit, max_power_limit;
  /// Memory clock that nvidia-smi shows at `dram_bandwidth`; absent where no log is known.
  std::optional<Hertz> memory_clock;
  /// Devices that share one board's power limit (2 on K80); `tdp` is this device's share.
  int dies_per_board = 1;
  /// Sampling window of nvidia-smi: 1 s before Volta, 1/6 s since.
  bool has_utilization_window_1s = false;

  // How the board is run, not a fact about it: set on a copy, never by a file.
  /// Clock that the user or the power limit holds it to; zero: the driver's own choice.
  Hertz set_clock{};

  /// Peak of (precision, unit), or nothing when this GPU has no such unit.
  [[nodiscard]] std::optional<FlopsPerSecond> find_peak(Precision precision, MathUnit unit) const;
  [[nodiscard]] FlopsPerSecond peak_fp32() const;
  /// Bandwidth in the board's default ECC state.
  [[nodiscard]] BytesPerSecond effective_bandwidth() const;
  /// FP32 lanes behind one warp scheduler; 32 means a single-issue scheduler must feed them every
  /// cycle and cannot also issue loads (GA10x, Ada, Hopper).
  [[nodiscard]] int fp32_lanes_per_scheduler() const;
};

}  // namespace tracecast
