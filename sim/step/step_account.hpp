#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/price.hpp"
#include "sim/step/metrics.hpp"

namespace tracecast {

struct Prediction;

inline constexpr std::size_t kBasisCount = 4;  ///< of cost::Basis

/// What fills a stretch of a rank's time: kernels one after the other, and between them waiting for
/// the rank's own host.
struct WorkMix {
  std::array<Seconds, kKernelClassCount> by_class{};
  std::array<Seconds, kBasisCount> by_basis{};  ///< the same time
  Seconds idle{};
  Joules active{};  ///< of the board, over its active-idle power

  void add(KernelClass kernel_class, cost::Basis basis, Seconds time, Joules energy = {});
  WorkMix& operator+=(const WorkMix& other);
  /// Takes so many times as long, for the same work.
  WorkMix& slice(double factor);
  [[nodiscard]] Seconds kernels() const;
  [[nodiscard]] Seconds total() const { return kernels() + idle; }
};

/// Kernel k of a prediction's program, that runs for `busy` of the `whole` time since the one
/// before it.
void add_kernel(WorkMix& mix, const Prediction& one_gpu, std::uint32_t k, Seconds busy,
                Seconds whole);
/// Micro-batches before the one whose kernels a prediction names, as they take it alone. Nothing
/// without any.
[[nodiscard]] WorkMix earlier_micro_batches(const Prediction& one_gpu);

/// Where the time of a job's step goes, of the mean rank. Each moment of a rank's step counts once:
///   - while kernels of the network run: to their classes (kernels that overlap share the moment
///   evenly)
///   - while the rank waits for its own host between them: idle
///   - else, while anything is communicated: communication, that nothing hides
///   - else, while a CPU adds or updates: host_update
///   - else, while other ranks compute, and as far as the rank is faster than the slowest:
///   stragglers
///   - else gradients wait to be noticed: communication. Waiting for the loader is told apart:
///   input
/// Sums to the step.
struct StepAccount {
  WorkMix work;
  Seconds communication{}, host_update{}, stragglers{}, input{};
  Seconds guessed{};  ///< of `input`, what rests on guesses of the loader or its host
  Seconds servers{};  ///< a worker waits for parameter servers and their channel

  [[nodiscard]] Seconds total() const;
  /// `weight` of the ranks are like `other`.
  void add(const StepAccount& other, double weight);
  /// Kernel classes greatest first, then "idle" and what is none, absent ones left out.
  [[nodiscard]] std::vector<TimeShare> by_class() const;
  /// Kernels by the basis of their price. Everything else is Transferred: hosts, links and loaders
  /// are known from other machines, but for `guessed`.
  [[nodiscard]] std::vector<TimeShare> by_basis() const;
};

/// From the step's begin.
struct TimeSpan {
  Seconds start{}, end{};
};
/// A stretch of a rank's own work; what lies outside the step belongs to the step before or after.
struct WorkSpan {
  TimeSpan span;
  const WorkMix* mix = nullptr;
  double part = 1;        ///< of the mix's work that is done in it
  double straggling = 1;  ///< it is reported so many times longer than the mean rank takes
};

/// What one rank does in a step, and what goes on around it: spans that are merged and sorted by
/// time.
struct RankStep {
  Seconds step_time{};
  std::vector<WorkSpan> work;
  std::span<const TimeSpan> communication;  ///< anything on its way
  std::span<const TimeSpan> collectives;    ///< of it: kernels of collectives that run on this rank
  std::span<const TimeSpan> host;           ///< additions and updates on CPUs
  std::span<const TimeSpan> any_work;       ///< some rank works
};

struct RankAccount {
  StepAccount account;
  Seconds exposed{};  ///< communication that hides behind nothing of the rank
  Windows active_w;   ///< over the active-idle power, W
};
/// `collective_w`: what a collective's kernels draw while they run, over the active-idle power.
[[nodiscard]] RankAccount account_rank(const RankStep& rank, Watts collective_w);

/// What the kernels of collectives draw on one GPU while they run, over the active-idle power:
/// `channels` blocks, each on an SM of its own, that read and write what an edge of the ring
/// carries, once each.
[[nodiscard]] Watts collective_power(Bytes edge_bytes, Seconds busy, int channels,
                                     const GpuSpec& gpu, const CostProfile& profile);

/// Power of a board that does the work of `alone` in a step of another length, from what it draws
/// over the active-idle power. It waits active-idle. A limit that holds alone holds here too:
/// collectives beside kernels at the limit are not told to raise it.
[[nodiscard]] PowerRange power_in_job(const PowerRange& alone, Seconds step_alone, Joules active,
                                      const Windows& active_w, Seconds step);
/// The mean board: average, demand and settings by `weights`, least and greatest of all.
[[nodiscard]] PowerRange mean_board(std::span<const PowerRange> boards,
                                    std::span<const double> weights);
/// A step that waits `more` beside what it did.
[[nodiscard]] PowerRange power_with_wait(PowerRange power, Seconds step, Seconds more);

}  // namespace tracecast
