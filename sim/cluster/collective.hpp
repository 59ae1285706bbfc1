#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hwspecs/collective_library.hpp"
#include "sim/base/units.hpp"
#include "sim/cluster/fabric.hpp"

namespace tracecast {

enum class Collective {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,  ///< from the first rank
  Reduce,     ///< to the first rank
  AllToAll,
  SendReceive,  ///< from the first rank to the second
};
[[nodiscard]] std::string_view to_string(Collective collective);

enum class CollectiveAlgorithm { None, Ring, Tree, Nvls, Direct };
[[nodiscard]] std::string_view to_string(CollectiveAlgorithm algorithm);
enum class CollectiveProtocol { Simple, LowLatency, LowLatency128 };
[[nodiscard]] std::string_view to_string(CollectiveProtocol protocol);

/// A transfer at rate r takes weight * r of the link.
struct FabricUse {
  FabricLinkId link;
  double weight = 1;
};

/// One collective as ONE coupled transfer: all its edges go at the pace of the slowest. It begins when all its ranks are
/// there, waits `latency` without bandwidth, then sends `bytes` at one rate over all its links.
struct CollectivePlan {
  Seconds latency{};
  Bytes bytes{};                           ///< that one edge of weight 1 carries
  std::vector<FabricUse> uses;             ///< each link once, by id
  std::optional<BytesPerSecond> rate_cap;  ///< of the algorithm's own making
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::None;
  CollectiveProtocol protocol = CollectiveProtocol::Simple;
  int channels = 1;
};

/// How `library` would do it, on an idle fabric. `bytes` is what nccl-tests calls size: the whole buffer of one rank
/// (AllGather, AllToAll: the larger of input and output; SendReceive: the message). One rank: nothing to do.
/// `ranks` are distinct ranks of the fabric.
[[nodiscard]] CollectivePlan plan_collective(const Fabric& fabric, std::span<const Rank> ranks,
                                             Collective collective, Bytes bytes,
                                             const CollectiveLibrary& library);

/// latency + bytes / min(rate_cap, min over uses of bandwidth / weight).
[[nodiscard]] Seconds time_alone(const CollectivePlan& plan, const Fabric& fabric);

/// All ranks of a fabric, in order.
[[nodiscard]] std::vector<Rank> all_ranks(const Fabric& fabric);

}  // namespace tracecast
