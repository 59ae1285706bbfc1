#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hwspecs/software/strategy_profile.hpp"
#include "sim/base/units.hpp"
#include "sim/network/collective.hpp"
#include "sim/network/fabric.hpp"
#include "sim/parallel/gradients.hpp"

namespace tracecast {

/// Who works through collectives in the order in which they are issued.
enum class CommunicationStream : std::uint8_t {
  Collective,  ///< collectives, or copies towards the GPU that adds
  Out,         ///< copies of sums and weights to the GPUs
  Network,     ///< between hosts
  Host,        ///< additions and updates on the CPU
  Crossing,    ///< all-to-alls of a communicator of their own
};
inline constexpr std::size_t kCommunicationStreamCount = 5;

/// One part of the communication of a bucket: a coupled transfer, or work of the host.
struct CommunicationStage {
  CommunicationStream stream{};
  CollectivePlan transfer{};
  Seconds host{};       ///< before the transfer, on the same stream
  bool on_sms = false;  ///< kernels of a collective move the data
};

/// What happens to one bucket, beside computing.
struct BucketCommunication {
  std::vector<CommunicationStage> fetch;  ///< of its weights, at the begin of a step
  std::vector<CommunicationStage> push;   ///< from the gradients to what the next step reads
  Bytes bytes{};                          ///< of its gradients, on their way
};

/// No link of the fabric, but one past its last: what the driver does for GPUs that cannot reach
/// each other, at RankVariation::staged_copies.
[[nodiscard]] FabricLinkId staging_link(const Fabric& fabric);

/// The communication of every bucket under a strategy, with collectives as its library did them at
/// `date` ("2017-08"; empty: today). Where the strategy knows hosts and copies only and there are
/// several nodes:
///   Copies, Scattered  the hosts communication the node's sum with servers on all of them, which
///   split every key: each NIC
///                      carries 2 (m - 1) / m of the bytes, in and out
///   OnHost             each bucket lies on the server (node) with the fewest bytes so far; every
///   worker (rank) fetches it
///                      from there and sends its gradient there, at `message_rate` per server in
///                      all
/// Copies and Scattered give the next bucket to the GPU of the node that has the fewest bytes so
/// far.
[[nodiscard]] std::vector<BucketCommunication> plan_communication(
    std::span<const GradientBucket> buckets, double wire_share, const StrategyProfile& strategy,
    const Fabric& fabric, std::string_view date);

/// What all ranks send each other in the midst of a step: an all-to-all, or single numbers added to
/// what others hold.
struct CrossingWork {
  Bytes most{};  ///< that a rank sends or gets
  double additions =
      0;  ///< by one rank, 4 bytes each, to the memory of all alike; no all-to-all then
};

/// All-to-alls by the strategy's library. Additions: over NVLink, which adds at the far end, as an
/// all-to-all of them. PCI Express has no addition of floating-point numbers (Base Specification,
/// AtomicOps: integer FetchAdd, Swap, CAS), so that each is a read and a compare-and-swap at least,
/// one after the other, and a device has so many requests on their way as there are tags:
///   additions * (ranks - 1) / ranks * 2 round trips / tags
/// Tags: 256, the Base Specification's 8 bits. CHOICE: that the additions are what two boxes of
/// mlperf.csv wait for was found with them in view; no number of it was set by them. Between nodes
/// nothing is added in this way.
[[nodiscard]] std::vector<CommunicationStage> plan_crossings(std::span<const CrossingWork> works,
                                                             const StrategyProfile& strategy,
                                                             const Fabric& fabric,
                                                             std::string_view date);

}  // namespace tracecast
