#include "sim/network/fabric.hpp"

#include <algorithm>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/network/machine_wiring.hpp"

namespace tracecast {
namespace {

constexpr std::uint64_t kMostRanks = 1'000'000;
constexpr std::uint64_t kMostLinks = 100'000'000;

}  // namespace

std::string_view to_string(FabricLinkKind kind) {
  switch (kind) {
    case FabricLinkKind::Pcie:
      return "pcie";
    case FabricLinkKind::Nvlink:
      return "nvlink";
    case FabricLinkKind::Socket:
      return "socket";
    case FabricLinkKind::Ethernet:
      return "ethernet";
    case FabricLinkKind::Infiniband:
      return "infiniband";
    case FabricLinkKind::Ipoib:
      return "ipoib";
    case FabricLinkKind::C2c:
      return "c2c";
    case FabricLinkKind::Uplink:
      return "uplink";
    case FabricLinkKind::HostMemory:
      return "host memory";
  }
  return "unknown";
}

std::string_view to_string(RouteKind kind) {
  switch (kind) {
    case RouteKind::Self:
      return "self";
    case RouteKind::Nvlink:
      return "nvlink";
    case RouteKind::PcieSwitch:
      return "pcie switch";
    case RouteKind::HostBridge:
      return "host bridge";
    case RouteKind::Socket:
      return "socket";
    case RouteKind::Network:
      return "network";
  }
  return "unknown";
}

struct Fabric::State {
  struct Group {
    MachineWiring wiring;
    GpuSpec gpu;
    std::uint32_t drawn_switch = 0;
  };
  struct Node {
    std::uint32_t group = 0;
    std::uint32_t first_rank = 0;
    std::uint32_t first_link = 0;
  };
  ClusterSpec spec;
  SpecLibrary specs = SpecLibrary::embedded();
  std::vector<Group> groups;
  std::vector<Node> nodes;
  std::vector<FabricNodeId> node_of;  ///< by rank
  /// Switches as a tree: links first_uplink + 2 i and + 2 i + 1 lead from switch i to its parent
  /// and back. The root has them too; nothing takes them.
  struct Switch {
    std::string name;
    std::optional<std::uint32_t> parent;
    std::uint32_t depth = 0;
  };
  std::vector<Switch> switches;
  std::vector<FabricLink>
      uplinks;  ///< of the switches; those of nodes stand in their group's wiring
  std::uint32_t first_uplink = 0;  ///< so many links belong to nodes
  std::uint32_t rails = 1;

  [[nodiscard]] const MachineWiring& wiring(FabricNodeId node) const {
    return groups[nodes[node.index].group].wiring;
  }
  /// The switch that a NIC is plugged into; nothing: one switch carries all.
  [[nodiscard]] std::optional<std::uint32_t> switch_of(FabricNodeId node,
                                                       std::uint32_t port) const {
    const ClusterNetwork& network = spec.network;
    if (!network.switches.empty()) return groups[nodes[node.index].group].drawn_switch;
    if (network.nodes_per_leaf == 0) return std::nullopt;
    const std::uint32_t pod = node.index / static_cast<std::uint32_t>(network.nodes_per_leaf);
    return 1 + (network.rail_optimized ? pod * rails + port % rails : pod);  // 0 is the spine
  }

  [[nodiscard]] FabricNodeId node_of_link(std::uint32_t link) const {
    const auto after = std::upper_bound(
        nodes.begin(), nodes.end(), link,
        [](std::uint32_t wanted, const Node& node) { return wanted < node.first_link; });
    return {static_cast<std::uint32_t>(after - nodes.begin()) - 1};
  }
  [[nodiscard]] const FabricLink& link(std::uint32_t index) const {
    if (index >= first_uplink) return uplinks.at(index - first_uplink);
    const FabricNodeId node = node_of_link(index);
    return wiring(node).links[index - nodes[node.index].first_link];
  }

  void append(Route& route, const LocalPath& path, FabricNodeId node) const {
    for (const std::uint32_t link : path.links) {
      route.links.push_back({nodes[node.index].first_link + link});
    }
    route.kind = std::max(route.kind, path.kind);
    route.is_staged |= path.is_staged;
  }
  /// From switch to switch, up to the nearest common one and down again.
  void cross(Route& route, FabricNodeId from, std::uint32_t from_port, FabricNodeId to,
             std::uint32_t to_port) const {
    const auto first = switch_of(from, from_port), last = switch_of(to, to_port);
    if (!first || !last) return;
    std::uint32_t a = *first, b = *last;
    std::vector<FabricLinkId> down;
    while (a != b) {
      if (switches[a].depth >= switches[b].depth) {
        route.links.push_back({first_uplink + 2 * a});
        a = *switches[a].parent;
      } else {
        down.push_back({first_uplink + 2 * b + 1});
        b = *switches[b].parent;
      }
    }
    route.links.insert(route.links.end(), down.rbegin(), down.rend());
  }

  void add_uplink(Switch added, BytesPerSecond bandwidth) {
    switches.push_back(std::move(added));
    for (int direction = 0; direction < 2; ++direction) {
      uplinks.push_back({bandwidth, Seconds(0), FabricLinkKind::Uplink});
    }
  }

  void add_drawn_switches(const LinkCatalog& catalog) {
    const std::vector<ClusterSwitch>& drawn = spec.network.switches;
    const auto find = [&](const std::string& name) {
      const auto it = std::find_if(drawn.begin(), drawn.end(),
                                   [&](const ClusterSwitch& s) { return s.name == name; });
      return static_cast<std::uint32_t>(it - drawn.begin());
    };
    for (const ClusterSwitch& s : drawn) {
      Switch added{s.name, std::nullopt, 0};
      BytesPerSecond bandwidth{};
      if (!s.parent.empty()) {
        const LinkSpec& link = catalog.find(s.link);
        added.parent = find(s.parent);
        bandwidth = link.bandwidth * (s.count * link.efficiency.value_or(1));
        for (std::uint32_t at = *added.parent;; at = find(drawn[at].parent)) {
          ++added.depth;
          if (drawn[at].parent.empty()) break;
        }
      }
      add_uplink(std::move(added), bandwidth);
    }
    for (std::uint32_t g = 0; g < groups.size(); ++g) {
      groups[g].drawn_switch = find(spec.groups[g].switch_name);
    }
  }

  /// One aggregate per leaf and direction: its NICs' bandwidth over the oversubscription; flows
  /// spread evenly.
  void add_leaves() {
    add_uplink({"spine", std::nullopt, 0}, BytesPerSecond(0));
    for (std::uint32_t n = 0; n < nodes.size(); ++n) {
      const MachineWiring& machine = wiring({n});
      for (std::uint32_t port = 0; port < machine.ports.size(); ++port) {
        const std::uint32_t leaf = *switch_of({n}, port);
        while (leaf >= switches.size()) {
          add_uplink({"leaf " + std::to_string(switches.size() - 1), 0, 1}, BytesPerSecond(0));
        }
        for (const std::uint32_t direction : {0U, 1U}) {
          uplinks[2 * leaf + direction].bandwidth +=
              machine.links[machine.ports[port].up].bandwidth / spec.network.oversubscription;
        }
      }
    }
  }

  [[nodiscard]] Route finish(Route route) const {
    bool on_network = false;
    for (const FabricLinkId id : route.links) {
      const FabricLink& link = this->link(id.index);
      const bool is_nic = link.kind == FabricLinkKind::Ethernet ||
                          link.kind == FabricLinkKind::Infiniband ||
                          link.kind == FabricLinkKind::Ipoib;
      // The latency of a network is that of a message from host to host: of its two NIC links, one
      // counts.
      if (is_nic && on_network) continue;
      on_network |= is_nic;
      route.latency += link.latency;
    }
    return route;
  }
};

Fabric::Fabric(std::shared_ptr<const State> state) : state_(std::move(state)) {}

std::uint32_t Fabric::num_ranks() const {
  return static_cast<std::uint32_t>(state_->node_of.size());
}
std::uint32_t Fabric::num_nodes() const { return static_cast<std::uint32_t>(state_->nodes.size()); }
FabricNodeId Fabric::node_of(Rank rank) const { return state_->node_of.at(rank.index); }
std::uint32_t Fabric::slot_of(Rank rank) const {
  return rank.index - state_->nodes[node_of(rank).index].first_rank;
}
Rank Fabric::first_rank(FabricNodeId node) const {
  return {state_->nodes.at(node.index).first_rank};
}
std::uint32_t Fabric::ranks_of(FabricNodeId node) const { return state_->wiring(node).num_slots; }
std::uint32_t Fabric::ranks_of_host(FabricNodeId node) const {
  return std::min(ranks_of(node), static_cast<std::uint32_t>(machine_of(node).slots_of_host()));
}
const GpuSpec& Fabric::gpu_of(Rank rank) const {
  return state_->groups[state_->nodes[node_of(rank).index].group].gpu;
}
const MachineSpec& Fabric::machine_of(FabricNodeId node) const {
  return state_->wiring(node).machine;
}
const ClusterGroup& Fabric::group_of(FabricNodeId node) const {
  return state_->spec.groups[state_->nodes.at(node.index).group];
}
const SpecLibrary& Fabric::specs() const { return state_->specs; }
const ClusterSpec& Fabric::spec() const { return state_->spec; }
std::uint32_t Fabric::num_links() const {
  return state_->first_uplink + static_cast<std::uint32_t>(state_->uplinks.size());
}
FabricLinkId Fabric::first_link(FabricNodeId node) const {
  return {state_->nodes.at(node.index).first_link};
}
std::uint32_t Fabric::links_of(FabricNodeId node) const {
  return static_cast<std::uint32_t>(state_->wiring(node).links.size());
}
const FabricLink& Fabric::link(FabricLinkId id) const { return state_->link(id.index); }

std::string Fabric::name_of(FabricLinkId id) const {
  if (id.index >= state_->first_uplink) {
    const std::uint32_t i = id.index - state_->first_uplink;
    const State::Switch& from = state_->switches[i / 2];
    const std::string parent = from.parent ? state_->switches[*from.parent].name : "nothing";
    return i % 2 == 0 ? from.name + " > " + parent : parent + " > " + from.name;
  }
  const FabricNodeId node = state_->node_of_link(id.index);
  return "node " + std::to_string(node.index) + ": " +
         state_->wiring(node).link_names[id.index - state_->nodes[node.index].first_link];
}

Route Fabric::route(Rank from, Rank to) const {
  const FabricNodeId a = node_of(from), b = node_of(to);
  const MachineWiring &wa = state_->wiring(a), &wb = state_->wiring(b);
  const std::uint32_t i = slot_of(from), j = slot_of(to);
  Route route;
  if (a == b) {
    state_->append(route, wa.gpu_to_gpu[i * wa.num_slots + j], a);
  } else {
    state_->append(route, wa.gpu_to_port[i], a);
    state_->cross(route, a, wa.port_of[i], b, wb.port_of[j]);
    state_->append(route, wb.port_to_gpu[j], b);
  }
  return state_->finish(std::move(route));
}

int Fabric::bricks_between(Rank a, Rank b) const {
  const FabricNodeId node = node_of(a);
  if (node != node_of(b)) return 0;
  const MachineWiring& wiring = state_->wiring(node);
  return wiring.bricks[slot_of(a) * wiring.num_slots + slot_of(b)];
}

bool Fabric::is_switched(Rank a, Rank b) const {
  if (a == b || node_of(a) != node_of(b)) return false;
  const MachineWiring& wiring = state_->wiring(node_of(a));
  const LocalPath& path = wiring.gpu_to_gpu[slot_of(a) * wiring.num_slots + slot_of(b)];
  return path.kind == RouteKind::Nvlink && bricks_between(a, b) == 0;
}

int Fabric::switch_bricks(Rank rank) const {
  return state_->wiring(node_of(rank)).switch_bricks[slot_of(rank)];
}

std::uint32_t Fabric::port_of(Rank rank) const {
  const MachineWiring& wiring = state_->wiring(node_of(rank));
  TRACECAST_CHECK(!wiring.port_of.empty(), "a rank among several nodes has a NIC");
  return wiring.port_of[slot_of(rank)];
}

FabricLinkId Fabric::network_link(Rank rank) const {
  const FabricNodeId node = node_of(rank);
  return {state_->nodes[node.index].first_link + state_->wiring(node).ports[port_of(rank)].up};
}

std::vector<NodeNics> Fabric::nics() const {
  std::vector<NodeNics> all;
  if (num_nodes() < 2) return all;
  for (std::uint32_t g = 0; g < state_->groups.size(); ++g) {
    const auto nodes = static_cast<std::uint32_t>(
        std::count_if(state_->nodes.begin(), state_->nodes.end(),
                      [&](const State::Node& node) { return node.group == g; }));
    if (nodes == 0) continue;
    const std::size_t first = all.size();
    for (const MachineWiring::Port& port : state_->groups[g].wiring.ports) {
      const auto known = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                                      [&](const NodeNics& nics) { return nics.link == port.link; });
      if (known == all.end()) {
        all.push_back({nodes, port.count, port.link, port.line_rate});
      } else {
        known->per_node += port.count;
      }
    }
  }
  return all;
}

Route Fabric::route_to_host(Rank from) const {
  Route route;
  state_->append(route, state_->wiring(node_of(from)).gpu_to_host[slot_of(from)], node_of(from));
  return state_->finish(std::move(route));
}

Route Fabric::route_from_host(Rank to) const {
  Route route;
  state_->append(route, state_->wiring(node_of(to)).host_to_gpu[slot_of(to)], node_of(to));
  return state_->finish(std::move(route));
}

Route Fabric::route_between_hosts(FabricNodeId from, FabricNodeId to, std::uint32_t rail) const {
  Route route;
  if (from == to) return route;
  const MachineWiring &wa = state_->wiring(from), &wb = state_->wiring(to);
  const auto i = rail % static_cast<std::uint32_t>(wa.ports.size());
  const auto j = rail % static_cast<std::uint32_t>(wb.ports.size());
  state_->append(route, wa.ports[i].from_host, from);
  state_->cross(route, from, i, to, j);
  state_->append(route, wb.ports[j].to_host, to);
  return state_->finish(std::move(route));
}

Fabric build_fabric(const ClusterSpec& spec, const SpecLibrary& specs) {
  auto state = std::make_shared<Fabric::State>();
  state->specs = specs;
  state->spec = spec;
  std::uint64_t num_nodes = 0, num_ranks = 0, num_links = 0;
  for (const ClusterGroup& group : spec.groups) {
    const MachineSpec& machine = specs.machines().find(group.machine);
    if (group.gpu.empty() && machine.gpus.empty()) {
      throw InputError("cluster", machine.id + ", whose slots take any GPU", "the GPU's id");
    }
    const GpuSpec& gpu = specs.gpus().find(group.gpu.empty() ? machine.gpus.front() : group.gpu);
    state->groups.push_back({wire_machine(machine, group, gpu, spec, specs), gpu, 0});
    const MachineWiring& wiring = state->groups.back().wiring;
    const auto count = static_cast<std::uint64_t>(std::max(group.count, 0));
    num_nodes += count;
    num_ranks += count * wiring.num_slots;
    num_links += count * wiring.links.size();
    state->rails = std::max(state->rails, static_cast<std::uint32_t>(wiring.ports.size()));
  }
  if (num_ranks == 0) throw InputError("cluster", "0 GPUs", "at least one");
  if (num_ranks > kMostRanks || num_links > kMostLinks) {
    throw InputError("cluster", std::to_string(num_ranks) + " GPUs",
                     "at most " + std::to_string(kMostRanks));
  }
  for (std::uint32_t g = 0; g < spec.groups.size(); ++g) {
    const MachineWiring& wiring = state->groups[g].wiring;
    if (num_nodes > 1 && spec.groups[g].count > 0 && wiring.ports.empty()) {
      throw InputError("cluster", wiring.machine.id + ", which has no network, among several nodes",
                       "machines with a NIC");
    }
    for (int i = 0; i < spec.groups[g].count; ++i) {
      const FabricNodeId node{static_cast<std::uint32_t>(state->nodes.size())};
      state->nodes.push_back(
          {g, static_cast<std::uint32_t>(state->node_of.size()), state->first_uplink});
      state->node_of.insert(state->node_of.end(), wiring.num_slots, node);
      state->first_uplink += static_cast<std::uint32_t>(wiring.links.size());
    }
  }
  if (!spec.network.switches.empty()) {
    state->add_drawn_switches(specs.links());
  } else if (spec.network.nodes_per_leaf > 0) {
    state->add_leaves();
  }
  return Fabric(std::move(state));
}

ClusterSpec uniform_cluster(std::string_view machine, int gpus, int count, std::string_view gpu) {
  ClusterSpec spec;
  spec.id = std::string(machine);
  ClusterGroup group;
  group.count = count;
  group.machine = machine;
  group.gpus = gpus;
  group.gpu = gpu;
  spec.groups.push_back(std::move(group));
  return spec;
}

}  // namespace tracecast
