#include "sim/network/collective.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/network/node_collective.hpp"
#include "sim/network/ring_ways.hpp"
#include "sim/network/step_collectives.hpp"

namespace tracecast {
namespace {

/// Nodes as NCCL's tables count them: 1, 2, more.
std::size_t node_column(std::uint32_t nodes) { return std::min(nodes, 3U) - 1; }

/// NCCL's steps between nodes were measured over InfiniBand of FDR's latency or less; other
/// networks add the rest.
constexpr Seconds kTableNetwork = 0.7_us;

double floor_log2(std::uint32_t n) { return static_cast<double>(std::bit_width(n)) - 1; }

}  // namespace

double bus_factor(Collective collective, std::size_t num_ranks) {
  const auto n = static_cast<double>(num_ranks);
  switch (collective) {
    case Collective::AllReduce:
      return 2 * (n - 1) / n;
    case Collective::ReduceScatter:
    case Collective::AllGather:
    case Collective::AllToAll:
      return (n - 1) / n;
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::SendReceive:
      return 1;
  }
  return 1;
}

struct Communicator::Ways {
  Fabric fabric;
  std::vector<Rank> ranks;
  CollectiveLibrary library;
  RingWays rings;
  HostEdges host_edges;                   ///< of libraries that communication through hosts
  std::optional<Communicator> otherwise;  ///< of libraries of kernels: for what those do not take

  /// What the library believes of one algorithm and protocol, and the plan that it makes.
  struct Choice {
    CollectivePlan plan;
    Seconds estimate{};
  };

  [[nodiscard]] Seconds step(const CollectivePath& path) const {
    return rings.farthest <= RouteKind::Nvlink ? path.nvlink_step : path.pcie_step;
  }

  [[nodiscard]] Seconds network_step(const CollectivePath& path) const {
    return path.network_step + max(Seconds(0), rings.network_latency - kTableNetwork);
  }

  [[nodiscard]] bool is_offered(const CollectivePath& path, Collective collective) const {
    const bool one_speed =
        rings.capability == 70 || rings.capability == 80 || rings.capability == 90;
    if (path.protocol == CollectiveProtocol::LowLatency128 &&
        (rings.farthest > RouteKind::Nvlink || !one_speed)) {
      return false;
    }
    if (path.algorithm == CollectiveAlgorithm::Ring) return true;
    if (collective != Collective::AllReduce) return false;
    if (path.algorithm == CollectiveAlgorithm::Tree) {
      return library.trees_from_nodes > 0 &&
             static_cast<int>(rings.num_nodes) >= library.trees_from_nodes;
    }
    // Multicast in the switch came with Hopper's.
    return library.nvlink_sharp && rings.switched && rings.capability >= 90 &&
           rings.most_per_node > 2;
  }

  /// The newest entry that the GPUs reach.
  template <typename Entry>
  [[nodiscard]] const Entry* newest(const std::vector<Entry>& entries) const {
    const Entry* found = nullptr;
    for (const Entry& e : entries) {
      if (e.from_capability > rings.capability) continue;
      if (found == nullptr || e.from_capability > found->from_capability) found = &e;
    }
    return found;
  }

  /// What the library believes its channels carry: through switches whole channels of a speed that
  /// it tries.
  [[nodiscard]] BytesPerSecond believed_bandwidth() const {
    const auto* tried = newest(library.channel_speeds);
    if (tried == nullptr || !rings.switched || rings.num_nodes > 1) return rings.bandwidth;
    BytesPerSecond most{};
    for (const BytesPerSecond speed : tried->speeds) {
      most = max(most, speed * std::floor(rings.bandwidth / speed * (1 + 1e-9)));
    }
    return most > BytesPerSecond(0) ? most : rings.bandwidth;
  }

  /// Time by the library's own estimate.
  [[nodiscard]] Seconds estimate(const CollectivePath& path, const CollectivePlan& plan,
                                 Collective collective, Bytes bytes) const {
    const Seconds lat = latency(path, collective, bytes);
    const BytesPerSecond believed = believed_bandwidth();
    const auto* reduction = newest(library.switch_reductions);
    if (path.algorithm == CollectiveAlgorithm::Nvls && rings.num_nodes == 1 &&
        reduction != nullptr) {
      return lat + bytes / (believed * (reduction->efficiency * reduction->algorithm_share));
    }
    BytesPerSecond rate = believed * (path.bandwidth_fraction * correction(path, bytes));
    if (plan.rate_cap) rate = min(rate, *plan.rate_cap);
    return lat + plan.bytes / rate;
  }

  [[nodiscard]] Seconds latency(const CollectivePath& path, Collective collective,
                                Bytes bytes) const {
    const double n = rings.num_ranks, nodes = rings.num_nodes;
    if (path.algorithm == CollectiveAlgorithm::Tree) {
      return path.base + 2 * ((rings.most_per_node - 1.0) * step(path) +
                              floor_log2(rings.num_nodes) * network_step(path));
    }
    if (path.algorithm == CollectiveAlgorithm::Nvls) {
      const double hops = rings.num_nodes < 2       ? 0
                          : is_reduced_by_network() ? 1
                                                    : 2 * floor_log2(rings.num_nodes);
      return path.base + path.nvlink_step + hops * network_step(path);
    }
    const double rounds = collective == Collective::AllReduce ? 2 : 1;
    Seconds steps = rounds * ((n - nodes) * step(path) + (nodes - 1) * network_step(path));
    const double per_rank = bytes.in_bytes() / (rings.channels * n);
    if (rings.num_nodes > 1 && collective == Collective::AllReduce && per_rank >= 64 &&
        path.protocol == CollectiveProtocol::Simple) {
      steps *= library.ring_plateau;
    }
    return path.base + steps;
  }

  /// Payload that an edge carries.
  [[nodiscard]] Bytes edge_bytes(const CollectivePath& path, Collective collective,
                                 Bytes bytes) const {
    if (path.algorithm == CollectiveAlgorithm::Ring) {
      return bytes * bus_factor(collective, rings.num_ranks);
    }
    // A switch that reduces takes the buffer from every GPU once and gives it back, plus each GPU's
    // own share.
    if (path.algorithm == CollectiveAlgorithm::Nvls && rings.num_nodes == 1) {
      return bytes * (1 + 1.0 / rings.num_ranks);
    }
    return bytes * 2;
  }

  /// The network's switches reduce too (SHARP).
  [[nodiscard]] bool is_reduced_by_network() const {
    return library.network_sharp && rings.is_infiniband;
  }

  /// Reductions in the switches of the nodes and between them: each GPU's NVLinks carry the buffer
  /// and its own share of it; a node's NICs carry it once each way where two nodes communication it
  /// or the network reduces, twice in the double tree of more (inner in one half's tree, leaf in
  /// the other's).
  void set_switches(CollectivePlan& plan, const CollectivePath& path, Bytes bytes) const {
    const auto* reduction = newest(library.switch_reductions);
    const double within = (1 + 1.0 / rings.most_per_node) /
                          (reduction != nullptr ? reduction->efficiency : path.bandwidth_fraction);
    const double between = rings.num_nodes == 2 || is_reduced_by_network() ? 1 : 2;
    plan.bytes = bytes;
    for (FabricUse& use : plan.uses) {
      use.weight *= fabric.link(use.link).kind == FabricLinkKind::Nvlink ? within : between;
    }
  }

  [[nodiscard]] double correction(const CollectivePath& path, Bytes bytes) const {
    const auto& factors = library.tree_correction[static_cast<std::size_t>(path.protocol)];
    if (path.algorithm != CollectiveAlgorithm::Tree || factors.empty()) return 1;
    const double power = std::floor(std::log2(std::max(bytes.in_bytes() / 64, 1.0)));
    return power < static_cast<double>(factors.size()) ? factors[static_cast<std::size_t>(power)]
                                                       : 1;
  }

  [[nodiscard]] std::optional<BytesPerSecond> cap(const CollectivePath& path) const {
    const CollectiveCap* found = nullptr;
    for (const CollectiveCap& c : library.caps) {
      if (c.algorithm != path.algorithm || c.protocol != path.protocol ||
          c.from_capability > rings.capability) {
        continue;
      }
      if (found == nullptr || c.from_capability > found->from_capability) found = &c;
    }
    std::optional<BytesPerSecond> most;
    if (found == nullptr) return most;
    const std::size_t column = node_column(rings.num_nodes);
    if (!found->per_channel.empty()) most = found->per_channel[column] * rings.channels;
    if (!found->in_all.empty()) {
      most = most ? min(*most, found->in_all[column]) : found->in_all[column];
    }
    return most;
  }

  [[nodiscard]] Choice try_path(const CollectivePath& path, Collective collective,
                                Bytes bytes) const {
    Choice choice;
    CollectivePlan& plan = choice.plan;
    plan.algorithm = path.algorithm;
    plan.protocol = path.protocol;
    plan.channels = rings.channels;
    plan.latency = latency(path, collective, bytes);
    plan.bytes = edge_bytes(path, collective, bytes);
    plan.rate_cap = cap(path);
    const double share = path.bandwidth_fraction * correction(path, bytes);
    plan.uses = rings.uses;
    if (path.algorithm == CollectiveAlgorithm::Nvls && rings.num_nodes > 1) {
      set_switches(plan, path, bytes);
      choice.estimate = time_alone(plan, fabric);
      return choice;
    }
    for (FabricUse& use : plan.uses) use.weight /= share;
    choice.estimate = estimate(path, plan, collective, bytes);
    return choice;
  }

  /// Replaces the library's own estimate of the time, which chose, by the fitted one where there is
  /// one.
  void set_efficiency(CollectivePlan& plan, Collective collective, Bytes bytes,
                      const CollectiveEfficiency& efficiency) const {
    const auto limited = NodeCollective::find(rings, library, efficiency);
    if (!limited) return;
    if (plan.algorithm == CollectiveAlgorithm::Nvls) {
      if (const auto* reduction = newest(library.switch_reductions)) {
        plan.channels = reduction->channels;
        limited->set_switch(plan, bytes, reduction->channels);
      }
    } else {
      limited->set_ring(plan, collective, bytes);
    }
  }

  [[nodiscard]] CollectivePlan channels(Collective collective, Bytes bytes,
                                        const CollectiveEfficiency& efficiency) const {
    std::optional<Choice> best;
    for (const CollectivePath& path : library.paths) {
      if (!is_offered(path, collective)) continue;
      Choice choice = try_path(path, collective, bytes);
      if (!best || choice.estimate < best->estimate) best = std::move(choice);
    }
    TRACECAST_CHECK(best.has_value(), "every library with channels has a ring");
    set_efficiency(best->plan, collective, bytes, efficiency);
    return std::move(best->plan);
  }

  /// Messages straight from rank to rank, as NCCL's grouped sends: base and step of the ring's
  /// simple protocol.
  [[nodiscard]] CollectivePlan messages(Collective collective, Bytes bytes,
                                        const CollectiveEfficiency& efficiency) const {
    CollectivePlan plan = collective == Collective::AllToAll
                              ? all_pairs(fabric, ranks, bytes)
                              : one_message(fabric, ranks[0], ranks[1], bytes);
    const auto limited = NodeCollective::find(rings, library, efficiency);
    if (limited && limited->set_messages(plan, collective, fabric)) return plan;
    for (const CollectivePath& path : library.paths) {
      if (path.algorithm != CollectiveAlgorithm::Ring ||
          path.protocol != CollectiveProtocol::Simple) {
        continue;
      }
      plan.latency = path.base + (rings.num_nodes > 1 ? network_step(path) : step(path));
    }
    return plan;
  }

  /// As if nothing but links and the library's own caps bounded it.
  [[nodiscard]] CollectivePlan plan_unbound(Collective collective, Bytes bytes,
                                            const CollectiveEfficiency& efficiency) const {
    if (library.kind == LibraryKind::HostSteps) {
      return plan_host_steps(fabric, ranks, rings, host_edges, collective, bytes, library);
    }
    if (library.kind == LibraryKind::TreeCopies) {
      return plan_tree_copies(fabric, ranks, collective, bytes, library);
    }
    return collective == Collective::AllToAll || collective == Collective::SendReceive
               ? messages(collective, bytes, efficiency)
               : channels(collective, bytes, efficiency);
  }

  /// Bounds a plan of rings or trees by the threads that serve the sockets of its NICs: the
  /// kernel's TCP copies every byte, of which a link's weight counts `staging_overhead`.
  void bound_by_sockets(CollectivePlan& plan) const {
    const double overhead = library.kind == LibraryKind::TreeCopies ? 1 : library.staging_overhead;
    for (const FabricUse& use : plan.uses) {
      const FabricLink& link = fabric.link(use.link);
      if (!link.sockets.are_needed()) continue;
      bound(plan, socket_rate(link) * (overhead / use.weight));
    }
  }
  /// The same of messages: every rank has its own threads for those that it sends to other nodes.
  void bound_messages(CollectivePlan& plan, std::size_t num_ranks) const {
    if (rings.num_nodes < 2) return;
    const std::span<const Rank> talking = std::span(ranks).first(num_ranks);
    std::map<FabricNodeId, std::size_t> in_node;
    for (const Rank rank : talking) ++in_node[fabric.node_of(rank)];
    for (const Rank rank : talking) {
      const std::size_t away = num_ranks - in_node[fabric.node_of(rank)];
      if (away == 0) continue;
      const FabricLink& link = fabric.link(fabric.network_link(rank));
      if (link.sockets.are_needed()) bound(plan, socket_rate(link) / static_cast<double>(away));
    }
  }
  [[nodiscard]] BytesPerSecond socket_rate(const FabricLink& link) const {
    return link.sockets.each * library.socket_threads(link.sockets.line_rate, link.sockets.most);
  }
  static void bound(CollectivePlan& plan, BytesPerSecond most) {
    if (plan.rate_cap && *plan.rate_cap <= most) return;
    plan.rate_cap = most;
    plan.is_held_by_sockets = true;
  }
};

Communicator::Communicator(const Fabric& fabric, std::span<const Rank> ranks,
                           const CollectiveLibrary& library, PlanLinks links) {
  TRACECAST_CHECK(!ranks.empty(), "a communicator has ranks");
  Ways ways{fabric,  {ranks.begin(), ranks.end()},
            library, find_rings(fabric, ranks, library, links),
            {},      std::nullopt};
  if (library.kind == LibraryKind::HostSteps) ways.host_edges = find_host_edges(fabric, ranks);
  if (library.kind == LibraryKind::Kernels) {
    ways.otherwise.emplace(fabric, ranks, fabric.specs().find_collective_library(library.otherwise),
                           links);
  }
  ways_ = std::make_shared<Ways>(std::move(ways));
}

CollectivePlan Communicator::plan(Collective collective, Bytes bytes) const {
  return plan(collective, bytes, ways_->fabric.specs().collective_efficiency());
}

CollectivePlan Communicator::plan(Collective collective, Bytes bytes,
                                  const CollectiveEfficiency& efficiency) const {
  const Ways& ways = *ways_;
  if (ways.ranks.size() < 2 || bytes <= Bytes(0)) return {};
  if (ways.library.kind == LibraryKind::Kernels) {
    const auto limited = NodeCollective::find(ways.rings, ways.library, efficiency);
    if (limited && collective == Collective::AllReduce) {
      if (auto plan = limited->find_kernel(bytes)) return *std::move(plan);
    }
    return ways.otherwise->plan(collective, bytes, efficiency);
  }
  CollectivePlan plan = ways.plan_unbound(collective, bytes, efficiency);
  if (collective == Collective::SendReceive) {
    ways.bound_messages(plan, 2);
  } else if (collective == Collective::AllToAll && ways.library.kind != LibraryKind::HostSteps) {
    ways.bound_messages(plan, ways.ranks.size());
  } else {
    ways.bound_by_sockets(plan);
  }
  return plan;
}

double Communicator::log_sd(Bytes bytes) const {
  constexpr double kUnpaced = 0.2;  // what tables of older boxes had
  const Ways& ways = *ways_;
  const auto limited =
      NodeCollective::find(ways.rings, ways.library, ways.fabric.specs().collective_efficiency());
  if (ways.otherwise && !(limited && limited->find_kernel(bytes))) {
    return ways.otherwise->log_sd(bytes);
  }
  return limited ? limited->log_sd(bytes, ways.otherwise.has_value()) : kUnpaced;
}

CollectivePlan plan_collective(const Fabric& fabric, std::span<const Rank> ranks,
                               Collective collective, Bytes bytes,
                               const CollectiveLibrary& library) {
  if (ranks.size() < 2) return {};
  return Communicator(fabric, ranks, library).plan(collective, bytes);
}

Seconds time_alone(const CollectivePlan& plan, const Fabric& fabric) {
  auto rate = slowest(plan.uses, fabric);
  if (plan.rate_cap) rate = rate ? min(*rate, *plan.rate_cap) : *plan.rate_cap;
  return rate ? plan.latency + plan.bytes / *rate : plan.latency;
}

std::vector<Rank> all_ranks(const Fabric& fabric) {
  std::vector<Rank> ranks;
  for (std::uint32_t i = 0; i < fabric.num_ranks(); ++i) ranks.push_back({i});
  return ranks;
}

}  // namespace tracecast
