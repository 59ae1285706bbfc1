#pragma once
#include <algorithm>
#include <cmath>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"

namespace tracecast::cost {

/// Share of the arithmetic rate that an inner loop reaches when its scheduler issues for
/// `issue_cycles` per multiply-add of a warp: the multiply-add itself and its share of loads,
/// addresses and branches, less what is issued in pairs.
///   pipe = 32 / lanes per scheduler: the cycles that one multiply-add of a warp occupies its lanes
///   efficiency = pipe / (pipe^3 + issue_cycles^3)^(1/3)
/// 16 lanes (Volta, Turing, GA100) leave every other issue slot to the rest; 32 (Maxwell, Pascal)
/// leave none; Kepler's 48 want one and a half multiply-adds each cycle. Source of lanes and
/// schedulers: CUDA C++ Programming Guide, compute capabilities; the exponent is that of the roofs.
/// From Ampere on clock.dense_factor holds the issue limit of 32 lanes already, and is not charged
/// twice.
[[nodiscard]] inline double issue_efficiency(const GpuSpec& gpu, double issue_cycles,
                                             const CostProfile& profile) {
  const int lanes = std::max(gpu.fp32_lanes_per_scheduler(), 1);
  const double pipe = 32.0 / lanes;
  const double share =
      pipe / std::cbrt(pipe * pipe * pipe + issue_cycles * issue_cycles * issue_cycles);
  const bool dense = gpu.architecture >= Architecture::Ampere && lanes >= 32;
  return dense ? std::min(1.0, share / profile.clock.dense_factor) : share;
}

/// Rate of a matrix library's inner loop on its best tile, of the sustained rate.
[[nodiscard]] inline double library_efficiency(const GpuSpec& gpu, const CostProfile& profile) {
  return issue_efficiency(gpu, profile.gemm.issue, profile);
}

/// The same of the GEMMs between the transforms of non-fused Winograd. What they gain on the
/// library's was learned where they are cuDNN's own kernels; on Kepler they are the library's.
/// Source: data/kernels/conv_cudnn_algos.csv.gz, K80 and GRID K520 13 to 22 % too fast with the
/// gain.
[[nodiscard]] inline double winograd_gemm_efficiency(const GpuSpec& gpu,
                                                     const CostProfile& profile) {
  const double gain = profile.convolution.winograd_gemm;
  const bool is_own = gpu.architecture != Architecture::Kepler;
  return library_efficiency(gpu, profile) * (is_own ? gain : std::min(gain, 1.0));
}

/// Issue cycles of cuDNN's best kernels: its assembler's, which knows no Kepler. Source: kernel
/// names in recorded runs, maxwell_scudnn_* on Maxwell and Pascal, *_convolve_sgemm on Kepler,
/// where IMPLICIT_GEMM and IMPLICIT_PRECOMP_GEMM take the same time to 1 %.
[[nodiscard]] inline double best_issue_cycles(const GpuSpec& gpu, const CostProfile& profile) {
  return gpu.architecture == Architecture::Kepler ? profile.convolution.compiled_issue
                                                  : profile.convolution.assembled_issue;
}

/// Cycles until a dependent multiply-add may follow. Source: Jia, Maggioni, Staiger and Scarpazza,
/// Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018 (Kepler 9, Maxwell and
/// Pascal 6, Volta 4); CUDA C++ Programming Guide, Multiprocessor Level: 4 from compute
/// capability 7.0 on.
[[nodiscard]] constexpr double arithmetic_latency(Architecture architecture) {
  switch (architecture) {
    case Architecture::Kepler:
      return 9;
    case Architecture::Maxwell:
    case Architecture::Pascal:
      return 6;
    default:
      return 4;
  }
}

}  // namespace tracecast::cost
