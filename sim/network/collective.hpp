#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hwspecs/collective_efficiency.hpp"
#include "hwspecs/collective_library.hpp"
#include "sim/base/collective.hpp"
#include "sim/base/units.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {

/// A transfer at rate r takes weight * r of the link.
struct FabricUse {
  FabricLinkId link;
  double weight = 1;
};

/// One collective as ONE coupled transfer: all its edges go at the pace of the slowest. It begins
/// when all its ranks are there, waits `latency` without bandwidth, then sends `bytes` at one rate
/// over all its links.
struct CollectivePlan {
  Seconds latency{};
  Bytes bytes{};                ///< that one edge of weight 1 carries
  std::vector<FabricUse> uses;  ///< each link once, by id
  /// Of the algorithm's own making, or of the threads that serve sockets.
  std::optional<BytesPerSecond> rate_cap;
  bool is_held_by_sockets = false;  ///< the latter
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::None;
  CollectiveProtocol protocol = CollectiveProtocol::Simple;
  int channels = 0;
};

/// Which links the plans of a communicator name.
enum class PlanLinks {
  All,
  /// Of links that are alike in all of them (kind, bandwidth and weight) the first kFewOfAlike.
  /// Enough where nothing else crosses those links: a link alike sets the same rate, and the
  /// busiest few are among these. The plans of rings through alike nodes then do not grow with
  /// their number.
  FewOfAlike,
};
inline constexpr std::size_t kFewOfAlike = 8;

/// Ranks that communicate, with the ways among them found once: plans for many sizes are cheap.
///
/// Within a node, rings over NVLink: as many as its bricks hold (pack_cycles), or one through the
/// switch; else one ring over PCIe in the order of slots. Between nodes a ring passes every node
/// once over all NICs that are nearest to a GPU of it. Trees take the same links. The library's own
/// estimate (NCCL: latency + bytes / bandwidth of each algorithm and protocol, src/graph/tuning.cc)
/// chooses; the time is that of the links and of the caps of the choice, and within one node of
/// newer GPUs the fitted pace of its kernels (node_collective.hpp).
class Communicator {
 public:
  /// `ranks`: distinct ranks of `fabric`, both of which may go away afterwards.
  Communicator(const Fabric& fabric, std::span<const Rank> ranks, const CollectiveLibrary& library,
               PlanLinks links = PlanLinks::All);

  /// On an idle fabric. `bytes` is what nccl-tests calls size: the whole buffer of one rank
  /// (AllGather, AllToAll: the larger of input and output; SendReceive: the message). One rank, or
  /// no bytes: nothing to do.
  [[nodiscard]] CollectivePlan plan(Collective collective, Bytes bytes) const;
  /// The same at another pace than that of the fabric's specs: for fits.
  [[nodiscard]] CollectivePlan plan(Collective collective, Bytes bytes,
                                    const CollectiveEfficiency& efficiency) const;
  /// Standard deviation of the logarithm of measured over predicted time.
  [[nodiscard]] double log_sd(Bytes bytes) const;

 private:
  struct Ways;
  std::shared_ptr<const Ways> ways_;
};

/// Communicator(fabric, ranks, library).plan(collective, bytes): for one plan.
[[nodiscard]] CollectivePlan plan_collective(const Fabric& fabric, std::span<const Rank> ranks,
                                             Collective collective, Bytes bytes,
                                             const CollectiveLibrary& library);

/// latency + bytes / min(rate_cap, min over uses of bandwidth / weight).
[[nodiscard]] Seconds time_alone(const CollectivePlan& plan, const Fabric& fabric);

/// bytes a rank receives (or sends) in the ring form over the time: what nccl-tests calls bus
/// bandwidth. All-reduce: 2 (N-1)/N; ReduceScatter, AllGather, AllToAll: (N-1)/N; others 1.
[[nodiscard]] double bus_factor(Collective collective, std::size_t num_ranks);

/// All ranks of a fabric, in order.
[[nodiscard]] std::vector<Rank> all_ranks(const Fabric& fabric);

}  // namespace tracecast
