#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hwspecs/software/strategy_profile.hpp"
#include "sim/network/fabric.hpp"
#include "sim/parallel/communication.hpp"
#include "sim/parallel/gradients.hpp"
#include "sim/step/input_pipeline.hpp"
#include "sim/step/prediction.hpp"
#include "sim/step/step_account.hpp"

namespace tracecast {

/// What all ranks send each other in the midst of a step, by kernels of the rank's program.
struct Crossing {
  std::optional<std::uint32_t>
      ready_after;  ///< the last one that makes it; nothing: the step's begin
  std::optional<std::uint32_t> first_use;  ///< the first one that reads it; nothing: the step's end
};

/// Ranks that compute alike: one GPU with the whole network and a batch of its own.
struct RankKind {
  const Prediction& one_gpu;  ///< of one of them alone, its input at hand
  const NetworkGraph& graph;  ///< of the step; the same network for all kinds
  const GpuSpec& gpu;
  std::vector<Bytes> element_bytes;   ///< of the graph's tensors (element_sizes)
  double compute_time_factor = 1;     ///< every kernel takes so many times its time
  std::vector<Crossing> crossings{};  ///< one for each of the request's
};

struct DataParallelRequest {
  const Fabric& fabric;
  const StrategyProfile& strategy;
  std::vector<RankKind> kinds;
  std::vector<std::uint32_t> kind_of;  ///< by rank: index into kinds
  std::optional<HostThreads> host;     ///< of one node; nothing: cores enough
  /// Standard deviation of one sample's time relative to its mean: 0 for samples alike; sentences
  /// and images of differing sizes have about 0.25. A batch of b has that over the root of b.
  double sample_sd = 0;
  Seconds input_supply{};  ///< no step of a rank is shorter; zero: input at hand
  std::string date{};      ///< of the collective library, "2017-08"; empty: today
  const CostProfile* cost =
      nullptr;  ///< what collectives draw; nothing: as if GPUs waited active-idle
  std::vector<CrossingWork> crossings{};  ///< of a step
  /// One stream of kernels for ranks of a kind that are provably alike (sim/network/fold.hpp)
  /// instead of one per rank: they do the same at the same times, so that the result is the same.
  bool fold = true;
};

/// The expected greatest of `n` independent standard normal numbers, by Blom's approximation: the
/// quantile at (n - 3/8) / (n + 1/4). 0 for n = 1. G. Blom, Statistical Estimates and Transformed
/// Beta-Variables, 1958.
[[nodiscard]] double expected_maximum(std::uint32_t n);

/// How much longer each of a fabric's ranks takes than alone until the slowest is there:
///   1 + hypot(rank_sd, kernel_share * sample_sd / sqrt(batch)) * expected_maximum(ranks), rank_sd
///   of the fabric's specs
/// kernel_share: of a step, in which kernels run; what the host alone takes is the same for every
/// sample.
[[nodiscard]] double straggling_of(const Fabric& fabric, double sample_sd, std::int64_t batch,
                                   double kernel_share = 1);
/// RankVariation's factor of GPUs that share a board with others that work; 1 where none do.
[[nodiscard]] double shared_board_factor(const GpuSpec& gpu, const Fabric& fabric);

/// Where one synchronous step goes, along its critical path: what, made faster, would make the step
/// faster. Sums to the step time. Collectives on the path may run beside kernels that nothing waits
/// for (DataParallelStep::exposed).
struct StepParts {
  Seconds compute{};        ///< kernels, and waiting for the rank's own host
  Seconds communication{};  ///< communication, and what waits to be noticed
  Seconds host_update{};    ///< additions and updates on the CPU
  Seconds stragglers{};     ///< waiting for the slowest rank
  Seconds input{};          ///< waiting for the loader
};

struct LinkLoad {
  FabricLinkId link;
  double share = 0;  ///< of its bandwidth, averaged over a step
};

/// One span of the step, for timelines: of a kind of rank, or of the communication.
struct RankSpan {
  std::optional<std::uint32_t> kind;  ///< nothing: a bucket's communication
  std::uint32_t index = 0;            ///< segment of the kind, or bucket
  bool on_gpus = false;               ///< a collective by kernels of a collective
  Seconds start{}, end{};             ///< from the step's begin
};

struct DataParallelStep {
  Seconds step_time{};
  StepParts parts;
  /// Share of `communication_busy` in which the mean rank has no work of its own: nothing hides it.
  double exposed = 0;
  Seconds communication_busy{};  ///< something on its way
  Seconds slowed{};      ///< kernels of the mean rank take longer: collectives keep SMs beside them
  Bytes communicated{};  ///< gradients, per rank and step
  std::size_t num_buckets = 0;
  std::uint32_t ranks_simulated = 0;  ///< streams of kernels; the other ranks do the same
  std::vector<Range> utilization;     ///< by kind, as nvidia-smi shows it
  std::vector<LinkLoad> busiest;      ///< greatest share first, at most 8
  std::vector<RankSpan> timeline;
  StepAccount account;  ///< of the mean rank
  /// Of the mean board: kernels draw what they draw alone, collectives what their blocks and bytes
  /// do; who waits is active-idle.
  PowerRange power;
};
/// A step that waits `more` for its input beside what it did: parts, account, power, use of GPUs
/// and links follow.
void add_input_wait(DataParallelStep& step, Seconds more);

/// One step of many in a row. Pure.
///   - ranks with a jittered start begin their first step at moments of their own; the first
///   communication brings all together
///   - every rank's kernels take the time that they take alone, times what its node's compute
///   factor, the straggling
///     and running collectives cost: 1 + hypot(rank_sd, sample_sd / sqrt(batch)) *
///     expected_maximum(ranks), and the factor of shared boards (RankVariation); a collective of c
///     channels occupies c of the GPU's SMs while it runs
///   - a bucket starts when the last of its gradients is there on every rank, and travels as the
///   strategy's communication
///   - updates follow as the strategy says, and the next step begins when all have ended, or with a
///   strategy that
///     overlaps it, layer by layer
///   - a rank's host issues its kernels beside all this (HostTimes, rank_program.hpp): it gets
///   ahead while the rank communicates, unless it waits for each step
///   - a crossing begins when all ranks have made theirs; what reads it waits
/// Without updates (inference, forward and backward) nothing is communicated, except weights that
/// lie on the first GPU. Not for one process under the interpreter's lock (nn.DataParallel):
/// run_replicated, sim/parallel/replicas.hpp.
[[nodiscard]] DataParallelStep simulate_data_parallel(const DataParallelRequest& request);

}  // namespace tracecast
