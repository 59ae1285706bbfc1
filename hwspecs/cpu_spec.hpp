#pragma once
#include <string>
#include <string_view>

#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Widest vector instructions of a CPU. On x86 each includes those before it, on Arm SVE includes
/// NEON.
enum class VectorIsa { Sse4, Avx, Avx2, Avx512, Vsx, Neon, Sve };
[[nodiscard]] std::string_view to_string(VectorIsa isa);

/// Public facts about one CPU package (one socket). A CpuSpec that exists is valid: the loader
/// refuses missing and absurd values.
struct CpuSpec : SpecIdentity {
  std::string microarchitecture;  ///< "broadwell"
  int release_year = 0;
  int cores = 0;
  int threads = 0;  ///< hardware threads of all cores

  Hertz base_clock{};
  Hertz turbo_clock{};     ///< highest of one busy core
  Hertz all_core_clock{};  ///< highest with all cores busy, scalar and 128-bit code
  Hertz vector_clock{};    ///< with all cores busy in the widest multiply-adds
  /// Instructions per clock of ordinary code (interpreters, memory management, branches) over
  /// Haswell's.
  double single_thread_ipc = 1;

  VectorIsa vector_isa{};
  int fp32_flop_per_cycle = 0;  ///< of a core, in the widest vectors; a multiply-add is two
  int bf16_flop_per_cycle = 0;  ///< the same with dot-product or matrix instructions; 0 = none
  int int8_op_per_cycle = 0;    ///< the same; 0 = none

  Bytes l1d{};  ///< of a core
  Bytes l2{};   ///< of a core
  Bytes l3{};   ///< of the package
  int memory_channels = 0;
  BytesPerSecond memory_bandwidth{};  ///< theoretical, all channels
  Bytes max_memory{};                 ///< most that the package can address
  int pcie_generation = 0;
  int pcie_lanes = 0;
  Watts tdp{};

  /// FP32 peak of the package with every core in its widest vectors: cores * fp32_flop_per_cycle *
  /// vector_clock.
  [[nodiscard]] FlopsPerSecond peak_fp32() const;
  /// Speed of one thread of ordinary code, in Haswell's cycles a second: turbo_clock *
  /// single_thread_ipc. What framework dispatch scales with. Leaves out: memory latency, other
  /// threads that take the turbo away.
  [[nodiscard]] Hertz single_thread_speed() const;
};

/// The processors of one machine.
struct CpuNode {
  CpuSpec cpu;
  int sockets = 1;
  Bytes memory{};  ///< of the machine

  [[nodiscard]] int cores() const { return sockets * cpu.cores; }
};

}  // namespace tracecast
