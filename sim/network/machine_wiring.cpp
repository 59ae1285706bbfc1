#include "sim/network/machine_wiring.hpp"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <optional>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                          boost::property<boost::edge_weight_t, double,
                                          boost::property<boost::edge_index_t, std::uint32_t>>>;

FabricLinkKind kind_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::Pcie:
      return FabricLinkKind::Pcie;
    case LinkKind::Nvlink:
      return FabricLinkKind::Nvlink;
    case LinkKind::Socket:
      return FabricLinkKind::Socket;
    case LinkKind::Ethernet:
      return FabricLinkKind::Ethernet;
    case LinkKind::Infiniband:
      return FabricLinkKind::Infiniband;
    case LinkKind::Ipoib:
      return FabricLinkKind::Ipoib;
    case LinkKind::C2c:
      return FabricLinkKind::C2c;
  }
  return FabricLinkKind::Pcie;
}

class Wirer {
 public:
  Wirer(const MachineSpec& machine, const ClusterGroup& group, const GpuSpec& gpu,
        const ClusterSpec& cluster, const SpecLibrary& specs)
      : group_(group), gpu_(gpu), cluster_(cluster), specs_(specs) {
    wiring_.machine = machine;
  }

  MachineWiring wire() {
    slots_ = wiring_.machine.nodes_of(NodeKind::Gpu);
    const int most = static_cast<int>(slots_.size());
    const int gpus = group_.gpus.value_or(most);
    if (gpus < 0 || gpus > most) {
      throw InputError(place(), std::to_string(gpus) + " GPUs in " + wiring_.machine.id,
                       "at most " + std::to_string(most));
    }
    slots_.resize(static_cast<std::size_t>(gpus));
    wiring_.num_slots = static_cast<std::uint32_t>(gpus);
    measure_nvlink();
    choose_nics();
    add_links();
    slow_down();
    count_bricks();
    draw_ways();
    route_gpus();
    route_hosts();
    find_ports();
    return std::move(wiring_);
  }

 private:
  [[nodiscard]] std::string place() const {
    return group_.name.empty() ? "cluster" : "cluster, group " + group_.name;
  }
  [[nodiscard]] const MachineNode& node(std::uint32_t i) const { return wiring_.machine.nodes[i]; }

  [[nodiscard]] bool leads_to_network(const MachineLink& drawn) const {
    return node(drawn.a).kind == NodeKind::Network || node(drawn.b).kind == NodeKind::Network;
  }
  [[nodiscard]] const std::string& network_link(const MachineLink& drawn) const {
    return cluster_.network.link.empty() ? drawn.link : cluster_.network.link;
  }

  /// How many links each NIC has to the network: as drawn, one where the network's own replace
  /// them, or as many as the cluster says of a node. Fewer than there are NICs: some of them,
  /// evenly spaced; more: several of a NIC.
  void choose_nics() {
    const MachineSpec& machine = wiring_.machine;
    count_of_.assign(machine.links.size(), 0);
    std::vector<std::size_t> drawn;
    for (std::size_t i = 0; i < machine.links.size(); ++i) {
      if (!leads_to_network(machine.links[i])) continue;
      count_of_[i] = cluster_.network.link.empty() ? machine.links[i].count : 1;
      drawn.push_back(i);
    }
    if (!cluster_.network.nics_per_node || drawn.empty()) return;
    const std::size_t wanted = static_cast<std::size_t>(*cluster_.network.nics_per_node) *
                               static_cast<std::size_t>(machine.hosts);
    for (const std::size_t i : drawn) count_of_[i] = 0;
    for (std::size_t k = 0; k < wanted; ++k) {
      ++count_of_[drawn[wanted <= drawn.size() ? k * drawn.size() / wanted : k % drawn.size()]];
    }
  }

  void add_links() {
    for (std::uint32_t i = 0; i < wiring_.machine.links.size(); ++i) {
      const MachineLink& drawn = wiring_.machine.links[i];
      const bool to_network = leads_to_network(drawn);
      const LinkSpec& spec = specs_.links().find(to_network ? network_link(drawn) : drawn.link);
      const int count = to_network ? count_of_[i] : drawn.count;
      const bool at_gpu =
          node(drawn.a).kind == NodeKind::Gpu || node(drawn.b).kind == NodeKind::Gpu;
      const BytesPerSecond raw = at_gpu ? as_gpu_has_it(spec, count) : spec.bandwidth * count;
      FabricLink link{raw * spec.efficiency.value_or(1), spec.latency, kind_of(spec.kind)};
      if (to_network && spec.is_tcp()) link.sockets = threads_of(spec.bandwidth * count);
      for (const bool back : {false, true}) {
        wiring_.links.push_back(link);
        wiring_.link_names.push_back(node(back ? drawn.b : drawn.a).name + " > " +
                                     node(back ? drawn.a : drawn.b).name);
      }
    }
    leaving_.resize(wiring_.machine.nodes.size());
    for (std::uint32_t i = 0; i < wiring_.links.size(); ++i) {
      const MachineLink& drawn = wiring_.machine.links[i / 2];
      leaving_[i % 2 == 0 ? drawn.a : drawn.b].push_back(i);
    }
    const CpuSpec& cpu = specs_.cpus().find(wiring_.machine.cpu);
    for (const std::uint32_t socket : wiring_.machine.nodes_of(NodeKind::Socket)) {
      memory_of_.resize(wiring_.machine.nodes.size());
      memory_of_[socket] = static_cast<std::uint32_t>(wiring_.links.size());
      wiring_.links.push_back({cpu.memory_bandwidth, Seconds(0), FabricLinkKind::HostMemory});
      wiring_.link_names.push_back(node(socket).name + " memory");
    }
  }

  /// Of one NIC in one direction. A host's hardware threads are shared by its NICs and both
  /// directions.
  [[nodiscard]] SocketThreads threads_of(BytesPerSecond line_rate) const {
    const MachineSpec& machine = wiring_.machine;
    const RankVariation& variation = specs_.rank_variation();
    const double speed = specs_.cpus().find(machine.cpu).single_thread_speed() /
                         specs_.cpus().find(variation.tcp_cpu).single_thread_speed();
    const auto nics = static_cast<int>(
        std::count_if(count_of_.begin(), count_of_.end(), [](int count) { return count > 0; }));
    return {line_rate, variation.tcp_thread * speed,
            std::max(1, machine.hardware_threads / std::max(1, 2 * nics))};
  }

  /// A card may be older than its slot, and have other NVLinks than those drawn, or none.
  [[nodiscard]] BytesPerSecond as_gpu_has_it(const LinkSpec& spec, int count) const {
    const BytesPerSecond drawn = spec.bandwidth * count;
    if (spec.kind == LinkKind::Pcie || spec.kind == LinkKind::C2c) {
      return min(drawn, gpu_.pcie_bandwidth);
    }
    if (spec.kind != LinkKind::Nvlink) return drawn;
    return drawn * std::min(1.0, gpu_.nvlink_bandwidth / drawn_nvlink_);
  }

  /// The most NVLink bandwidth that is drawn at one GPU.
  void measure_nvlink() {
    for (const std::uint32_t slot : wiring_.machine.nodes_of(NodeKind::Gpu)) {
      BytesPerSecond sum{};
      for (const MachineLink& drawn : wiring_.machine.links) {
        const LinkSpec& spec = specs_.links().find(drawn.link);
        if (spec.kind != LinkKind::Nvlink || (drawn.a != slot && drawn.b != slot)) continue;
        sum += spec.bandwidth * drawn.count;
      }
      drawn_nvlink_ = max(drawn_nvlink_, sum);
    }
  }

  void slow_down() {
    for (const SlowLink& slow : group_.slow_links) {
      bool found = false;
      for (std::size_t i = 0; i < wiring_.machine.links.size(); ++i) {
        const std::string& a = node(wiring_.machine.links[i].a).name;
        const std::string& b = node(wiring_.machine.links[i].b).name;
        if (!((a == slow.a && b == slow.b) || (a == slow.b && b == slow.a))) continue;
        found = true;
        for (const std::size_t direction : {2 * i, 2 * i + 1}) {
          wiring_.links[direction].bandwidth *= slow.bandwidth_factor;
        }
      }
      if (!found) {
        throw InputError(place(), "a slow link between \"" + slow.a + "\" and \"" + slow.b + "\"",
                         "two nodes that a link of " + wiring_.machine.id + " joins");
      }
    }
  }

  /// Ways of fewest links over links of one sort and nodes that carry them; among equals those of
  /// the greatest bandwidths.
  struct Ways {
    std::optional<Graph> carried;  ///< links that leave a node that carries
    /// By source, found when it is first asked for.
    struct Tree {
      std::vector<std::size_t> came_from;
      std::vector<std::uint32_t> came_over;
    };
    std::vector<std::optional<Tree>> trees;
    bool of_mesh = false;
  };

  void draw_ways() {
    for (Ways* ways : {&nvlink_ways_, &host_ways_}) {
      ways->of_mesh = ways == &nvlink_ways_;
      ways->carried.emplace(wiring_.machine.nodes.size());
      ways->trees.resize(wiring_.machine.nodes.size());
      for (std::uint32_t n = 0; n < wiring_.machine.nodes.size(); ++n) {
        if (carries(n, ways->of_mesh)) add_links_of(n, *ways);
      }
    }
  }

  [[nodiscard]] bool carries(std::uint32_t n, bool of_mesh) const {
    const NodeKind kind = node(n).kind;
    return of_mesh ? kind == NodeKind::NvSwitch
                   : kind == NodeKind::PcieSwitch || kind == NodeKind::Socket;
  }

  void add_links_of(std::uint32_t from, Ways& ways) const {
    for (const std::uint32_t i : leaving_[from]) {
      if (is_gpu_mesh(i) != ways.of_mesh || wiring_.links[i].bandwidth <= BytesPerSecond(0)) {
        continue;
      }
      const MachineLink& drawn = wiring_.machine.links[i / 2];
      // Bandwidths are 0.01 to 1e7 GB/s: their share stays far below one link.
      const double weight = 1 + 1e-6 / wiring_.links[i].bandwidth.in_gb_per_s();
      boost::add_edge(from, i % 2 == 0 ? drawn.b : drawn.a, {weight, i}, *ways.carried);
    }
  }

  const Ways::Tree& tree_of(std::uint32_t from, Ways& ways) const {
    std::optional<Ways::Tree>& tree = ways.trees[from];
    if (tree) return *tree;
    const bool is_end = !carries(from, ways.of_mesh);
    if (is_end) add_links_of(from, ways);
    const Graph& graph = *ways.carried;
    tree.emplace();
    tree->came_from.resize(boost::num_vertices(graph));
    tree->came_over.resize(boost::num_vertices(graph));
    std::vector<double> distance(boost::num_vertices(graph));
    boost::dijkstra_shortest_paths(
        graph, from, boost::predecessor_map(tree->came_from.data()).distance_map(distance.data()));
    for (std::size_t to = 0; to < tree->came_from.size(); ++to) {
      if (tree->came_from[to] == to) continue;
      tree->came_over[to] = link_taken(graph, tree->came_from[to], to, distance);
    }
    if (is_end) boost::clear_out_edges(from, *ways.carried);
    return *tree;
  }

  [[nodiscard]] std::optional<std::vector<std::uint32_t>> shortest(std::uint32_t from,
                                                                   std::uint32_t to,
                                                                   Ways& ways) const {
    const Ways::Tree& tree = tree_of(from, ways);
    if (to != from && tree.came_from[to] == to) return std::nullopt;
    std::vector<std::uint32_t> path;
    for (std::size_t at = to; at != from; at = tree.came_from[at]) {
      path.push_back(tree.came_over[at]);
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

  static std::uint32_t link_taken(const Graph& graph, std::size_t a, std::size_t b,
                                  const std::vector<double>& distance) {
    const auto weights = boost::get(boost::edge_weight, graph);
    const auto indices = boost::get(boost::edge_index, graph);
    for (auto [edge, end] = boost::out_edges(a, graph); edge != end; ++edge) {
      if (boost::target(*edge, graph) == b && distance[a] + weights[*edge] == distance[b]) {
        return indices[*edge];
      }
    }
    TRACECAST_CHECK(false, "the way found consists of links of the graph");
  }

  [[nodiscard]] bool is_gpu_mesh(std::uint32_t i) const {
    const MachineLink& drawn = wiring_.machine.links[i / 2];
    const auto is_end = [&](std::uint32_t n) {
      return node(n).kind == NodeKind::Gpu || node(n).kind == NodeKind::NvSwitch;
    };
    return wiring_.links[i].kind == FabricLinkKind::Nvlink && is_end(drawn.a) && is_end(drawn.b);
  }

  [[nodiscard]] std::optional<std::vector<std::uint32_t>> over_nvlink(std::uint32_t from,
                                                                      std::uint32_t to) {
    return shortest(from, to, nvlink_ways_);
  }
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> over_host(std::uint32_t from,
                                                                    std::uint32_t to) {
    return shortest(from, to, host_ways_);
  }
  [[nodiscard]] std::vector<std::uint32_t> must_reach(std::uint32_t from, std::uint32_t to) {
    auto path = over_host(from, to);
    if (!path) refuse_way(from, node(to).name);
    return *path;
  }
  [[noreturn]] void refuse_way(std::uint32_t from, const std::string& to) const {
    throw InputError(place() + ", machine " + wiring_.machine.id,
                     "no way from " + node(from).name + " to " + to,
                     "links over PCIe switches and sockets");
  }

  [[nodiscard]] RouteKind kind_of_path(std::uint32_t from,
                                       const std::vector<std::uint32_t>& path) const {
    int sockets = 0;
    std::uint32_t at = from;
    for (const std::uint32_t i : path) {
      sockets += node(at).kind == NodeKind::Socket;
      const MachineLink& drawn = wiring_.machine.links[i / 2];
      at = i % 2 == 0 ? drawn.b : drawn.a;
    }
    return sockets == 0   ? RouteKind::PcieSwitch
           : sockets == 1 ? RouteKind::HostBridge
                          : RouteKind::Socket;
  }

  [[nodiscard]] std::uint32_t nearest_socket(std::uint32_t from) {
    std::optional<std::uint32_t> best;
    std::size_t hops = 0;
    for (const std::uint32_t socket : wiring_.machine.nodes_of(NodeKind::Socket)) {
      const auto path = over_host(from, socket);
      if (!path || (best && path->size() >= hops)) continue;
      best = socket;
      hops = path->size();
    }
    if (!best) {
      throw InputError(place() + ", machine " + wiring_.machine.id,
                       "no way from " + node(from).name + " to a socket",
                       "links over PCIe switches");
    }
    return *best;
  }

  [[nodiscard]] LocalPath join(std::vector<std::uint32_t> first, std::uint32_t memory,
                               const std::vector<std::uint32_t>& second, RouteKind kind) const {
    first.insert(first.end(), {memory, memory});  // written and read
    first.insert(first.end(), second.begin(), second.end());
    return {std::move(first), kind, true};
  }

  void count_bricks() {
    const std::size_t n = slots_.size();
    wiring_.bricks.assign(n * n, 0);
    wiring_.switch_bricks.assign(n, 0);
    if (cluster_.no_p2p) return;
    for (std::uint32_t i = 0; i < wiring_.machine.links.size(); ++i) {
      if (!is_gpu_mesh(2 * i) || wiring_.links[2 * i].bandwidth <= BytesPerSecond(0)) continue;
      const MachineLink& drawn = wiring_.machine.links[i];
      const auto a = std::find(slots_.begin(), slots_.end(), drawn.a) - slots_.begin();
      const auto b = std::find(slots_.begin(), slots_.end(), drawn.b) - slots_.begin();
      const auto i_a = static_cast<std::size_t>(a), i_b = static_cast<std::size_t>(b);
      if (i_a < n && i_b < n) {
        wiring_.bricks[i_a * n + i_b] += drawn.count;
        wiring_.bricks[i_b * n + i_a] += drawn.count;
      } else if (i_a < n && node(drawn.b).kind == NodeKind::NvSwitch) {
        wiring_.switch_bricks[i_a] += drawn.count;
      } else if (i_b < n && node(drawn.a).kind == NodeKind::NvSwitch) {
        wiring_.switch_bricks[i_b] += drawn.count;
      }
    }
  }

  void route_gpus() {
    for (const std::uint32_t from : slots_) {
      for (const std::uint32_t to : slots_) {
        wiring_.gpu_to_gpu.push_back(from == to ? LocalPath{} : between_gpus(from, to));
      }
    }
  }

  [[nodiscard]] LocalPath between_gpus(std::uint32_t from, std::uint32_t to) {
    if (!cluster_.no_p2p) {
      if (auto path = over_nvlink(from, to)) return {std::move(*path), RouteKind::Nvlink, false};
    }
    auto path = must_reach(from, to);
    const RouteKind kind = kind_of_path(from, path);
    // CUDA gives no peer access from one socket to another.
    if (kind != RouteKind::Socket && access_.over_pcie && !cluster_.no_p2p)
      return {std::move(path), kind, false};
    const std::uint32_t socket = nearest_socket(to);
    return join(must_reach(from, socket), memory_of_[socket], must_reach(socket, to), kind);
  }

  void route_hosts() {
    for (const std::uint32_t gpu : slots_) {
      const std::uint32_t socket = nearest_socket(gpu);
      auto out = must_reach(gpu, socket), in = must_reach(socket, gpu);
      out.push_back(memory_of_[socket]);
      in.insert(in.begin(), memory_of_[socket]);
      wiring_.gpu_to_host.push_back({std::move(out), RouteKind::HostBridge, false});
      wiring_.host_to_gpu.push_back({std::move(in), RouteKind::HostBridge, false});
    }
  }

  void find_ports() {
    std::vector<std::uint32_t> nics;
    for (std::uint32_t i = 0; i < wiring_.machine.links.size(); ++i) {
      const MachineLink& drawn = wiring_.machine.links[i];
      if (count_of_[i] == 0) continue;
      const bool a_network = node(drawn.a).kind == NodeKind::Network;
      const std::uint32_t nic = a_network ? drawn.b : drawn.a;
      nics.push_back(nic);
      MachineWiring::Port port;
      port.up = 2 * i + (a_network ? 1 : 0);
      port.down = 2 * i + (a_network ? 0 : 1);
      port.link = network_link(drawn);
      port.count = count_of_[i];
      port.line_rate = specs_.links().find(port.link).bandwidth;
      const std::uint32_t socket = nearest_socket(nic);
      port.from_host = {must_reach(socket, nic), RouteKind::Network, false};
      port.from_host.links.insert(port.from_host.links.begin(), memory_of_[socket]);
      port.from_host.links.push_back(port.up);
      port.to_host = {must_reach(nic, socket), RouteKind::Network, false};
      port.to_host.links.insert(port.to_host.links.begin(), port.down);
      port.to_host.links.push_back(memory_of_[socket]);
      wiring_.ports.push_back(std::move(port));
    }
    if (!nics.empty()) assign_ports(nics);
  }

  /// Each GPU takes the NIC nearest to it; GPUs that have the same nearest ones take turns. A GPU
  /// reaches the NICs of its own host: in a rack, those of its compute tray.
  void assign_ports(const std::vector<std::uint32_t>& nics) {
    std::vector<std::vector<std::uint32_t>> seen;
    for (const std::uint32_t gpu : slots_) {
      std::vector<std::uint32_t> nearest;
      std::size_t hops = 0;
      for (std::uint32_t k = 0; k < nics.size(); ++k) {
        const auto path = over_host(gpu, nics[k]);
        if (!path) continue;
        if (nearest.empty() || path->size() < hops) {
          nearest.clear();
          hops = path->size();
        }
        if (path->size() == hops) nearest.push_back(k);
      }
      if (nearest.empty()) refuse_way(gpu, "a NIC");
      const auto turn = static_cast<std::size_t>(std::count(seen.begin(), seen.end(), nearest));
      seen.push_back(nearest);
      const std::uint32_t k = nearest[turn % nearest.size()];
      wiring_.port_of.push_back(k);
      connect(gpu, nics[k], wiring_.ports[k]);
    }
  }

  void connect(std::uint32_t gpu, std::uint32_t nic, const MachineWiring::Port& port) {
    // Peer access to the NIC (GPUDirect RDMA) needs InfiniBand verbs and a switch that both hang
    // below, or a processor that the GPU is joined to by NVLink-C2C (NCCL, src/graph/paths.cc:
    // NCCL_NET_GDR_C2C, on by default since 2.27).
    const auto direct = must_reach(gpu, nic);
    const RouteKind kind = kind_of_path(gpu, direct);
    const bool is_near = kind == RouteKind::PcieSwitch ||
                         (kind == RouteKind::HostBridge &&
                          wiring_.links[direct.front()].kind == FabricLinkKind::C2c);
    const bool peer =
        access_.to_network && is_near && specs_.links().find(port.link).has_gpu_direct();
    LocalPath out, in;
    if (peer) {
      out = {direct, RouteKind::Network, false};
      in = {must_reach(nic, gpu), RouteKind::Network, false};
    } else {
      const std::uint32_t socket = nearest_socket(nic);
      out = join(must_reach(gpu, socket), memory_of_[socket], must_reach(socket, nic),
                 RouteKind::Network);
      in = join(must_reach(nic, socket), memory_of_[socket], must_reach(socket, gpu),
                RouteKind::Network);
    }
    out.links.push_back(port.up);
    in.links.insert(in.links.begin(), port.down);
    wiring_.gpu_to_port.push_back(std::move(out));
    wiring_.port_to_gpu.push_back(std::move(in));
  }

  const ClusterGroup& group_;
  const GpuSpec& gpu_;
  const ClusterSpec& cluster_;
  const SpecLibrary& specs_;
  const PeerAccess access_ = specs_.peer_access(gpu_);
  MachineWiring wiring_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> memory_of_;             ///< by node; of sockets
  std::vector<std::vector<std::uint32_t>> leaving_;  ///< by node: links that lead away from it
  std::vector<int> count_of_;  ///< by drawn link to the network: how many there are
  Ways nvlink_ways_, host_ways_;
  BytesPerSecond drawn_nvlink_{};
};

}  // namespace

MachineWiring wire_machine(const MachineSpec& machine, const ClusterGroup& group,
                           const GpuSpec& gpu, const ClusterSpec& cluster,
                           const SpecLibrary& specs) {
  return Wirer(machine, group, gpu, cluster, specs).wire();
}

}  // namespace tracecast
