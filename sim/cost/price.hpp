#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/prefill.hpp"
#include "sim/cost/sustained_clock.hpp"
#include "sim/cost/tensor_gemm.hpp"

namespace tracecast::cost {

/// The roof that sets a kernel's duration. `Latency`: too little work to fill the GPU.
enum class Bound { Compute, Memory, Latency };
/// How a number came about; see the README.
enum class Basis { Measured, Transferred, Spec, Unknown };
[[nodiscard]] std::string_view to_string(Bound bound);
[[nodiscard]] std::string_view to_string(Basis basis);

/// What the cost model says about one kernel that has the GPU to itself.
struct KernelEstimate {
  Seconds duration{};      ///< first block start to last block end; launch excluded
  Seconds compute_time{};  ///< the compute roof alone
  Seconds memory_time{};   ///< the memory roof alone
  double throttle = 1;  ///< share of the clock that the power limit leaves while it runs, in (0, 1]
  /// Mean of the board while it runs, where its price rests on the power limit (TensorPower and
  /// KernelPower, from Ampere on); 0: not told.
  Watts power{};
  double sm_share = 1;  ///< of all SMs, those that work, averaged over `duration`; in (0, 1]
  Bound bound = Bound::Memory;
  Basis basis = Basis::Spec;
  double log_sd = 0;  ///< standard deviation of ln(measured / predicted); sim/cost/spread.hpp
  double shared_log_sd = 0;  ///< of it, what all kernels of this form on this GPU share
};

/// A candidate with its price.
struct PricedCandidate {
  const Candidate* candidate = nullptr;
  std::vector<KernelEstimate> estimates;  ///< one per kernel, same order
  Seconds duration{};                     ///< sum of the kernels
};

/// What a price of GEMMs on tensor cores rests on: rows of this GPU, of its generation, or its
/// spec.
[[nodiscard]] Basis gemm_basis(const GpuSpec& gpu, const CostProfile& profile);
/// What a GEMM's price is expected to be off by: standard deviation of ln(measured / predicted). A
/// board that was not measured has at least the error of generations left out: of most generations
/// one chip was measured.
///   log_sd^2 = base^2 + format^2 + warp^2 + (beyond distance)^2
/// format: other formats than 16 bits, by whose kernels run; warp: tensor cores without
/// asynchronous copies; distance: beyond_fit().
[[nodiscard]] double gemm_log_sd(const TensorGemm& gemm, const GpuSpec& gpu,
                                 const CostProfile& profile);

/// What an estimate of a call knows of its own error: whose kernels run, whether they read or
/// multiply values below 16 bits, whether few of them were written for it (heads of other widths
/// than 64 and 128, latent attention over the cache's vectors for new tokens, experts of a divided
/// group), and whether it has a window.
struct CallUncertainty {
  std::optional<GemmEngine> engine;
  bool is_low_precision = false, is_rare = false, has_window = false;
  double roof_share =
      0;  ///< of its duration, what the greater of its arithmetic and its traffic takes
};
/// Nothing is in doubt of other kinds of work.
[[nodiscard]] CallUncertainty uncertainty_of(const Work& work, const CallEstimate& estimate);

/// Price of a call of an inference engine (PrefillWork, DecodeWork, ExpertsWork, QuantizationWork),
/// the kernels around it included.
struct CallPrice {
  CallEstimate estimate;
  CostForm form = CostForm::Prefill;
  Basis basis = Basis::Spec;
  CallUncertainty uncertainty = {};
  double log_sd = 0;  ///< standard deviation of ln(measured / predicted)
};
/// Nothing for other kinds of work.
[[nodiscard]] std::optional<CallPrice> price_call(const Work& work, const GpuSpec& gpu,
                                                  const CostProfile& profile);

/// The formula that prices a kernel.
[[nodiscard]] CostForm form_of(const Kernel& kernel);

/// Isolated duration of `kernel` at sustained clocks. Pure; never throws on a valid kernel.
[[nodiscard]] KernelEstimate estimate(const Kernel& kernel, const GpuSpec& gpu,
                                      const CostProfile& profile);
/// The same, at once where many kernels are priced on one board.
[[nodiscard]] KernelEstimate estimate(const Kernel& kernel, const SustainedBoard& board);

/// Duration of a kernel that has the idle board to itself, as benchmarks of single calls see it: it
/// runs before the power controller, which holds averages over milliseconds, has lowered the clock
/// all the way. From its sustained estimate:
///   gain     = 1 + burst_gain (1 - throttle) / (1 + duration / burst_span)
///   duration' = duration * combine(compute / gain, memory) / combine(compute, memory)
/// Nothing changes where the power limit leaves the clock alone.
[[nodiscard]] Seconds burst_duration(const KernelEstimate& sustained, const CostProfile& profile);

/// The candidate that the library would take under the op's policy and workspace limit, and under
/// `most_workspace`, priced. Needs op.candidates non-empty.
[[nodiscard]] PricedCandidate choose(const LoweredOp& op, const SustainedBoard& board,
                                     std::optional<Bytes> most_workspace = {});
[[nodiscard]] PricedCandidate choose(const LoweredOp& op, const GpuSpec& gpu,
                                     const CostProfile& profile);

}  // namespace tracecast::cost
