#pragma once
#include <span>
#include <vector>

#include "hwspecs/collective_library.hpp"
#include "sim/network/collective.hpp"

namespace tracecast {

/// The rings of a communicator, all channels together, each with its share of the bytes. Private to
/// sim/network.
struct RingWays {
  std::vector<FabricUse> uses;           ///< of one byte on every edge of every ring, shared evenly
  int channels = 1;                      ///< that the library would open
  RouteKind farthest = RouteKind::Self;  ///< within nodes
  bool switched = false;                 ///< all GPUs of each node on NVSwitches
  std::uint32_t num_ranks = 0, num_nodes = 0;
  std::uint32_t most_per_node = 0;
  int capability = 0;          ///< least compute capability
  Hertz clock{};               ///< least boost clock
  bool is_infiniband = false;  ///< between nodes
  Seconds network_latency{};   ///< the longest of the NICs' links; zero on one node
  BytesPerSecond bandwidth{};  ///< min over uses of bandwidth / weight
};

/// Nodes alike (same group, same slots) have rings alike: they are searched once.
[[nodiscard]] RingWays find_rings(const Fabric& fabric, std::span<const Rank> ranks,
                                  const CollectiveLibrary& library,
                                  PlanLinks links = PlanLinks::All);

/// Adds up weights by link.
class UseSum {
 public:
  void add(FabricLinkId link, double weight) { uses_.push_back({link, weight}); }
  void add(const Route& route, double weight) {
    for (const FabricLinkId link : route.links) add(link, weight);
  }
  /// Each link once, by id.
  [[nodiscard]] std::vector<FabricUse> take();

 private:
  std::vector<FabricUse> uses_;
};

/// min over uses of bandwidth / weight; nothing without uses.
[[nodiscard]] std::optional<BytesPerSecond> slowest(std::span<const FabricUse> uses,
                                                    const Fabric& fabric);

}  // namespace tracecast
