#pragma once
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Power of a board on which a program holds a context and no kernel runs.
///   awake = idle + gddr_awake_pj_per_byte * pin rate   (GDDR; its clock sleeps on an idle board)
///   awake = idle                                       (HBM keeps its clock)
/// at most the limit.
[[nodiscard]] Watts awake_power(const GpuSpec& gpu, const CostProfile& profile);

/// Mean power of a board while `kernel` runs for `duration`.
///   node   = (process_nm / 16)^node_exponent
///   power  = awake + node * (clocked_pj * lane rate + pj(unit, format) * flops / duration)
///          + pj(memory) * min(bytes / duration, pin rate),   at most the limit
///   lane rate: 2 * sm_count * lanes * default clock. Lanes are the FP32 lanes; from Volta on at least 32 for each
///   warp scheduler, since integer lanes stand beside them (GA10x made those do FP32 as well).
///   pj(unit, format): flop_pj for four bytes on CUDA cores, tensor_flop_pj for two bytes on tensor cores, in
///   proportion to the format's width.
/// Sources: the parts and their order of size after Horowitz, "Computing's energy problem", ISSCC 2014 (an
/// instruction costs far more than its arithmetic), and O'Connor et al., "Fine-Grained DRAM", MICRO 2017 (HBM2
/// about 4 pJ/bit inside the stack); the numbers are fitted to boards, sim/cluster/notes/0001-power-and-memory.md.
/// Leaves out: temperature, other voltages than the default clock's, energy of L2 apart from DRAM.
/// Needs duration > 0.
[[nodiscard]] Watts kernel_power(const Kernel& kernel, Seconds duration, const GpuSpec& gpu,
                                 const CostProfile& profile);

}  // namespace tracecast
