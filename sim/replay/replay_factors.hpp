#pragma once
#include <array>
#include <cstdint>

#include "models/kernel.hpp"
#include "models/replay_program.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// What if the machine of a recording were faster: 2 = twice as fast.
struct ReplayFactors {
  double memory_bandwidth = 1;  ///< of the GPU
  double compute = 1;           ///< of the GPU's arithmetic
  double host = 1;              ///< of the thread between calls and in them
};
/// What changed, in sums over all ranks.
struct FactorChange {
  std::uint64_t count = 0;
  Seconds recorded{}, moved{};
};
struct FactorChanges {
  std::array<FactorChange, kKernelClassCount>
      kernels;  ///< by class; memsets and copies on the GPU with theirs
  FactorChange host;
};

/// Changes durations as if work were bound by one thing alone: convolutions, GEMMs and recurrent
/// steps by arithmetic, all other kernels but collectives by memory. A bound for what a change can
/// bring: kernels are bound by both in part. The quickest kernel of the program is what starting
/// and ending one takes, and stays:
///   duration' = least + (duration - least) / factor.
FactorChanges apply_factors(ReplayProgram& program, const ReplayFactors& factors);

}  // namespace tracecast
