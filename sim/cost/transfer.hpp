#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/recorded_work.hpp"
#include "sim/base/units.hpp"

namespace tracecast::cost {

/// How a recorded kernel's time on another GPU was found.
enum class TransferWay : std::uint8_t {
  ClassModel,  ///< recorded time x price there / price here, of the same work by the same algorithm
  Rechosen,    ///< the same, there by another algorithm or unit
  WaveScaling,  ///< by launch geometry and by what bounds its class, from specs
  Kept,         ///< as recorded: collectives wait for other GPUs
};
inline constexpr std::size_t kTransferWayCount = 4;
[[nodiscard]] std::string_view to_string(TransferWay way);

struct TransferOptions {
  /// fp32 code runs as TF32 on a target that has it, when the recorded GPU had not: PyTorch's
  /// default for convolutions (torch.backends.cudnn.allow_tf32), and not for GEMMs
  /// (torch.backends.cuda.matmul.allow_tf32, off since 1.12).
  bool tf32_convolutions = true;
  bool tf32_gemms = false;
};

struct TransferredKernel {
  Seconds duration{};
  TransferWay way = TransferWay::Kept;
  double log_sd = 0;         ///< standard deviation of ln(measured / predicted)
  double shared_log_sd = 0;  ///< of it, what all kernels of its class have in common
};

/// Durations on `to` of kernels recorded on `from`, one per kernel.
///   shapes known    t' = t * estimate(to) / estimate(from): what the cost model gets wrong on both
///   cancels. Not where
///                   estimate(from) is off by more than a factor of 3: then the kernel does
///                   something else.
///   convolutions    the same for all kernels of an operator together, by the recorded algorithm
///   where `to` has it in
///                   the same number format, else by the one that a library there would take
///                   (cost::choose)
///   unit missing    a GEMM on tensor cores that `to` lacks, its shape unknown: m and n from tile
///   and grid, k such that
///                   estimate(from) gives t; then as above. Layout changes for such convolutions
///                   take no time there.
///   GEMM on lanes  its shape unknown, but its tile and grid, or of a convolution the number of
///   blocks: the same on lanes
///                   both times, since how near tiles come to a GPU's peak differs
///   wave scaling    t' = fixed + (t - fixed) * s,   fixed = CostProfile::kernel.fill_us
///     memory-bound classes, Winograd's transforms   s = stream(from) / stream(to); below one block
///     an SM on both: clock(from) / clock(to) convolutions, GEMMs s = rate(from) fill(from) /
///     (rate(to) fill(to)),  fill: occupancy.hpp
/// Rates are sustained ones (sustained_clock.hpp). The form is Habitat's with gamma 1 or 0 by
/// class: Yu et al., "Habitat", USENIX ATC 2021, equations 1 and 2; it differs in `fixed` and in
/// taking the arithmetic rate in place of the clock, since lanes per SM differ between generations.
/// On the recorded GPU itself every time stays.
[[nodiscard]] std::vector<TransferredKernel> transfer(const RecordedWork& recorded,
                                                      const GpuSpec& from, const GpuSpec& to,
                                                      const CostProfile& profile,
                                                      const TransferOptions& options = {});

/// Time on `to` of a copy that took `duration` on `from`. Copies within memory go with the
/// bandwidth; those of pinned host memory with PCIe; between GPUs with NVLink where both have it,
/// else PCIe. Pageable memory goes through a buffer that the host fills: such copies stay.
[[nodiscard]] Seconds transfer_copy(Seconds duration, CopyRoute route, const GpuSpec& from,
                                    const GpuSpec& to, const CostProfile& profile);

}  // namespace tracecast::cost
