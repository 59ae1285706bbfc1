#include "sim/network/ring_ways.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <tuple>

#include "sim/network/ring_search.hpp"

namespace tracecast {
namespace {

/// Channels that NCCL opens for each NVLink brick through a switch, and at most (MAXCHANNELS).
constexpr int kChannelsPerBrick = 2;
constexpr int kMostChannels = 32;

class Finder {
 public:
  Finder(const Fabric& fabric, const CollectiveLibrary& library, PlanLinks links)
      : fabric_(fabric), library_(library), few_(links == PlanLinks::FewOfAlike) {}

  RingWays find(std::span<const Rank> ranks) {
    ways_.num_ranks = static_cast<std::uint32_t>(ranks.size());
    ways_.capability = fabric_.gpu_of(ranks.front()).compute_capability;
    ways_.clock = fabric_.gpu_of(ranks.front()).boost_clock;
    ways_.switched = true;
    std::map<FabricNodeId, std::vector<Rank>> by_node;
    for (const Rank rank : ranks) {
      by_node[fabric_.node_of(rank)].push_back(rank);
      ways_.capability = std::min(ways_.capability, fabric_.gpu_of(rank).compute_capability);
      ways_.clock = min(ways_.clock, fabric_.gpu_of(rank).boost_clock);
    }
    ways_.num_nodes = static_cast<std::uint32_t>(by_node.size());
    std::vector<Node> nodes;
    for (auto& [node, members] : by_node) {
      std::sort(members.begin(), members.end());
      nodes.push_back({.id = node, .kind = kind_of(node, members)});
      members = {};
    }
    if (few_) choose_few(nodes);
    for (const Node& node : nodes) {
      const std::uint32_t first = fabric_.first_link(node.id).index;
      if (!node.is_named) continue;
      for (const FabricUse& use : kinds_[node.kind].uses) {
        sum_.add(FabricLinkId{first + use.link.index}, use.weight);
      }
    }
    const std::size_t rails = nodes.size() > 1 ? between(nodes) : 0;
    ways_.uses = sum_.take();
    if (few_) keep_few();
    ways_.bandwidth = slowest(ways_.uses, fabric_).value_or(BytesPerSecond(0));
    if (rails > 0) open_rails(static_cast<int>(rails));
    if (ways_.channels == 0) ways_.channels = 1;
    return std::move(ways_);
  }

 private:
  /// Where the rings of one node begin and end when they go on to other nodes: one pair per NIC.
  using Gates = std::vector<std::pair<Rank, Rank>>;
  /// Nodes of a group of which the same slots take part: all ranks and links are numbered from the
  /// node's first on.
  struct NodeKind {
    std::vector<FabricUse> uses;  ///< of the rings within
    Gates gates;
  };
  struct Node {
    FabricNodeId id;
    std::size_t kind = 0;
    bool is_named = true;  ///< its links are
  };

  /// `members` in order. What a node's rings are it says once for all of its kind.
  std::size_t kind_of(FabricNodeId node, const std::vector<Rank>& members) {
    const std::uint32_t first = fabric_.first_rank(node).index;
    const auto group = &fabric_.group_of(node) - fabric_.spec().groups.data();
    std::pair key(group, std::vector<std::uint32_t>());
    for (const Rank rank : members) key.second.push_back(rank.index - first);
    const auto [known, is_new] = numbers_.emplace(std::move(key), kinds_.size());
    if (!is_new) return known->second;
    NodeKind kind{.uses = {}, .gates = within(members)};
    kind.uses = sum_.take();
    for (FabricUse& use : kind.uses) use.link.index -= fabric_.first_link(node).index;
    for (auto& [from, to] : kind.gates) from.index -= first, to.index -= first;
    kinds_.push_back(std::move(kind));
    return known->second;
  }

  /// Names the links of the first few nodes that are alike with both of their neighbours. The first
  /// node of all adds the same weights in another order, so one more is taken than is kept.
  void choose_few(std::vector<Node>& nodes) {
    const ClusterNetwork& network = fabric_.spec().network;
    if (!network.switches.empty() || network.nodes_per_leaf > 0) return;  // switches see all nodes
    std::map<std::array<std::size_t, 3>, std::size_t> seen;
    const std::size_t count = nodes.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::array around{nodes[(i + count - 1) % count].kind, nodes[i].kind,
                              nodes[(i + 1) % count].kind};
      nodes[i].is_named = ++seen[around] <= kFewOfAlike + 1;
    }
  }

  /// Of alike links the first few.
  void keep_few() {
    std::map<std::tuple<FabricLinkKind, double, double>, std::size_t> seen;
    std::erase_if(ways_.uses, [&](const FabricUse& use) {
      const FabricLink& link = fabric_.link(use.link);
      return ++seen[{link.kind, link.bandwidth.in_si(), use.weight}] > kFewOfAlike;
    });
  }

  Gates within(const std::vector<Rank>& members) {
    ways_.most_per_node = std::max(ways_.most_per_node, static_cast<std::uint32_t>(members.size()));
    if (members.size() < 2) return through(members);
    bool switched = true;
    for (const Rank a : members) {
      for (const Rank b : members) {
        if (a == b) continue;
        switched &= fabric_.is_switched(a, b);
      }
    }
    ways_.switched &= switched;
    if (switched) {
      over_switch(members);
      return through(members);
    }
    if (over_mesh(members)) return through(members);
    return over_host(members);
  }

  /// The GPU nearest to a NIC takes what comes and sends what goes: NVLink brings the rest to it.
  [[nodiscard]] Gates through(const std::vector<Rank>& members) const {
    Gates gates;
    if (ways_.num_nodes == 1) return gates;
    std::map<std::uint32_t, Rank> by_port;
    for (const Rank rank : members) by_port.emplace(fabric_.port_of(rank), rank);
    for (const auto& [port, rank] : by_port) gates.emplace_back(rank, rank);
    return gates;
  }

  void over_switch(const std::vector<Rank>& members) {
    ring(members);
    const int bricks = fabric_.switch_bricks(members.front());
    open(std::min(kMostChannels, kChannelsPerBrick * std::max(bricks, 1)));
  }

  /// Rings of direct NVLinks; false if there is none.
  bool over_mesh(const std::vector<Rank>& members) {
    if (members.size() == 2) {
      const int bricks = fabric_.bricks_between(members[0], members[1]);
      if (bricks == 0) return false;
      ring(members);
      open(bricks);
      return true;
    }
    LinkMesh mesh;
    mesh.num_nodes = static_cast<std::uint32_t>(members.size());
    for (const Rank a : members) {
      for (const Rank b : members) mesh.bricks.push_back(fabric_.bricks_between(a, b));
    }
    auto cycles = pack_cycles(mesh, false);
    if (cycles.empty() && library_.relays_nvlink) cycles = pack_cycles(mesh, true);
    if (cycles.empty()) return false;
    for (const MeshCycle& cycle : cycles) {
      const bool relayed = cycle.bricks.size() > cycle.order.size();
      const double share =
          0.5 / static_cast<double>(cycles.size()) * (relayed ? library_.relay_overhead : 1);
      for (const auto& [a, b] : cycle.bricks) {
        sum_.add(fabric_.route(members[a], members[b]), share);
        sum_.add(fabric_.route(members[b], members[a]), share);
      }
    }
    see(RouteKind::Nvlink);
    open(2 * static_cast<int>(cycles.size()));
    return true;
  }

  /// One ring, each GPU followed by the nearest that is left, the next slot among equals. Where it
  /// goes on to other nodes it is open: of its last GPU, not of its first, the data leave.
  Gates over_host(const std::vector<Rank>& members) {
    std::vector<Rank> order{members.front()}, left(members.begin() + 1, members.end());
    while (!left.empty()) {
      auto nearest = left.begin();
      for (auto it = left.begin(); it != left.end(); ++it) {
        if (fabric_.route(order.back(), *it).kind < fabric_.route(order.back(), *nearest).kind) {
          nearest = it;
        }
      }
      order.push_back(*nearest);
      left.erase(nearest);
    }
    open(1);
    const bool closed = ways_.num_nodes == 1;
    ring(order, closed);
    return closed ? Gates{} : Gates{{order.front(), order.back()}};
  }

  void ring(const std::vector<Rank>& order, bool closed = true) {
    for (std::size_t i = 0; i + 1 < order.size(); ++i) hop(fabric_.route(order[i], order[i + 1]));
    if (closed) hop(fabric_.route(order.back(), order.front()));
  }

  void hop(const Route& route) {
    see(route.kind);
    // What goes through host memory crosses the root complex too.
    const bool bridged = route.kind == RouteKind::HostBridge || route.is_staged;
    for (const FabricLinkId link : route.links) {
      const bool pcie = fabric_.link(link).kind == FabricLinkKind::Pcie;
      sum_.add(link, bridged && pcie ? library_.host_bridge_overhead : 1);
    }
  }

  /// Every node's NICs carry equal shares, NIC i of one node to NIC i of the next.
  /// So many each has, which is the answer.
  std::size_t between(const std::vector<Node>& nodes) {
    std::size_t rails = 0;
    for (const NodeKind& kind : kinds_) rails = std::max(rails, kind.gates.size());
    const auto gate = [&](const Node& node, std::size_t rail) {
      const std::uint32_t first = fabric_.first_rank(node.id).index;
      const Gates& gates = kinds_[node.kind].gates;
      const auto [in, out] = gates[rail % gates.size()];
      return std::pair(Rank{first + in.index}, Rank{first + out.index});
    };
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node &from = nodes[i], &to = nodes[(i + 1) % nodes.size()];
      if (!from.is_named && !to.is_named) continue;
      for (std::size_t rail = 0; rail < rails; ++rail) {
        const Rank sender = gate(from, rail).second;
        const Route route = fabric_.route(sender, gate(to, rail).first);
        const double overhead = route.is_staged ? library_.staging_overhead : 1;
        for (const FabricLinkId link : route.links) {
          if ((!from.is_named && is_of(from, link)) || (!to.is_named && is_of(to, link))) continue;
          sum_.add(link, overhead / static_cast<double>(rails));
        }
        ways_.network_latency =
            max(ways_.network_latency, fabric_.link(fabric_.network_link(sender)).latency);
      }
    }
    const Rank first = gate(nodes.front(), 0).second;
    const FabricLink& nic = fabric_.link(fabric_.network_link(first));
    ways_.is_infiniband = nic.kind == FabricLinkKind::Infiniband;
    return rails;
  }
  /// A rail of 200 Gb/s and more has two channels: one of them falls short of 25 GB/s. What counts
  /// is what the whole way carries: a faster NIC behind the same PCIe takes no more of the GPU.
  void open_rails(int rails) {
    constexpr BytesPerSecond kOfOneChannel(24e9);
    open(ways_.bandwidth / rails >= kOfOneChannel ? 2 * rails : rails);
  }
  [[nodiscard]] bool is_of(const Node& node, FabricLinkId link) const {
    const std::uint32_t first = fabric_.first_link(node.id).index;
    return link.index >= first && link.index < first + fabric_.links_of(node.id);
  }

  void see(RouteKind kind) { ways_.farthest = std::max(ways_.farthest, kind); }
  /// All nodes open as many channels as the least of them.
  void open(int channels) {
    ways_.channels = opened_ ? std::min(ways_.channels, channels) : channels;
    opened_ = true;
  }

  const Fabric& fabric_;
  const CollectiveLibrary& library_;
  bool few_;
  std::map<std::pair<std::ptrdiff_t, std::vector<std::uint32_t>>, std::size_t> numbers_;
  std::vector<NodeKind> kinds_;
  RingWays ways_;
  UseSum sum_;
  bool opened_ = false;
};

}  // namespace

std::vector<FabricUse> UseSum::take() {
  std::stable_sort(uses_.begin(), uses_.end(),
                   [](const FabricUse& a, const FabricUse& b) { return a.link < b.link; });
  std::vector<FabricUse> merged;
  for (const FabricUse& use : uses_) {
    if (!merged.empty() && merged.back().link == use.link) {
      merged.back().weight += use.weight;
    } else {
      merged.push_back(use);
    }
  }
  uses_.clear();
  return merged;
}

std::optional<BytesPerSecond> slowest(std::span<const FabricUse> uses, const Fabric& fabric) {
  std::optional<BytesPerSecond> rate;
  for (const FabricUse& use : uses) {
    const BytesPerSecond most = fabric.link(use.link).bandwidth / use.weight;
    rate = rate ? min(*rate, most) : most;
  }
  return rate;
}

RingWays find_rings(const Fabric& fabric, std::span<const Rank> ranks,
                    const CollectiveLibrary& library, PlanLinks links) {
  return Finder(fabric, library, links).find(ranks);
}

}  // namespace tracecast
