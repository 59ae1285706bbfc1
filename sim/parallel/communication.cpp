#include "sim/parallel/communication.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace tracecast {
namespace {

/// A copy by a DMA engine that waits for an event and signals one. Guess: cudaMemcpyAsync of a few
/// bytes takes about as long between devices.
constexpr Seconds kCopyLatency = 10.0_us;

/// Routes that are used at the same time, each by one copy of the whole bucket.
class CoupledCopies {
 public:
  CoupledCopies(const Fabric& fabric, bool no_peers) : fabric_(fabric), no_peers_(no_peers) {}
  void add(const Route& route, double weight = 1) {
    for (const FabricLinkId link : route.links) weights_[link] += weight;
    if (no_peers_ && route.is_staged) add_staging(weight);
    latency_ = max(latency_, route.latency);
  }
  /// Between GPUs of one node. Without an NVSwitch a device has eight peer connections at most
  /// (CUDA C Programming Guide, Peer-to-Peer Memory Access). Programs connect pairs in order of
  /// their numbers: the first nine with each other, then the next nine; copies to others are
  /// staged.
  void add_between(Rank from, Rank to) {
    constexpr std::uint32_t kConnected = 9;
    const Route route = fabric_.route(from, to);
    add(route);
    const bool staged = no_peers_ && route.is_staged;
    const bool too_many = fabric_.slot_of(from) / kConnected != fabric_.slot_of(to) / kConnected;
    if (too_many && !staged && route.kind != RouteKind::Nvlink) add_staging(1);
  }
  [[nodiscard]] CollectivePlan take(Bytes bytes, BytesPerSecond most) const {
    CollectivePlan plan;
    plan.algorithm = CollectiveAlgorithm::Direct;
    plan.bytes = bytes;
    plan.latency = latency_ + kCopyLatency;
    for (const auto& [link, weight] : weights_) plan.uses.push_back({link, weight});
    if (most > BytesPerSecond(0)) plan.rate_cap = most;
    return plan;
  }

 private:
  /// Every node's driver stages its own copies.
  void add_staging(double weight) {
    weights_[staging_link(fabric_)] += weight / fabric_.num_nodes();
  }

  const Fabric& fabric_;
  bool no_peers_;  ///< these GPUs cannot reach each other even below one socket
  std::map<FabricLinkId, double> weights_;
  Seconds latency_{};
};

class Planner {
 public:
  Planner(const StrategyProfile& strategy, const Fabric& fabric, std::string_view date)
      : strategy_(strategy), fabric_(fabric), ranks_(all_ranks(fabric)) {
    std::uint32_t most = 0;
    for_each_node([&](FabricNodeId node) { most = std::max(most, fabric.ranks_of(node)); });
    owned_.assign(most, Bytes());
    served_.assign(fabric.num_nodes(), Bytes());
    if (fabric.ranks_of(FabricNodeId{0}) > 1) {
      const Rank first = fabric.first_rank(FabricNodeId{0});
      const Route neighbour = fabric.route(first, Rank{first.index + 1});
      no_peers_ = neighbour.is_staged && neighbour.kind != RouteKind::Socket;
    }
    if (strategy.library != "copies") {
      const CollectiveLibrary& library =
          fabric.specs().find_collective_library(strategy.library, "", date);
      on_sms_ = library.kind == LibraryKind::Channels;
      communicator_.emplace(fabric, ranks_, library, PlanLinks::FewOfAlike);
      if (strategy.divides_updates && fabric.num_nodes() > 1) connect_by_node(library);
    }
  }

  BucketCommunication plan(Bytes bytes) {
    BucketCommunication communication{.fetch = {}, .push = {}, .bytes = bytes};
    switch (strategy_.communication) {
      case Communication::AllReduce:
        if (in_node_) {
          plan_by_node(bytes, communication);
        } else {
          communication.push.push_back(collective(Collective::AllReduce, bytes));
        }
        break;
      case Communication::OnHost:
        plan_on_host(bytes, communication);
        break;
      case Communication::Scattered:
        plan_owner(bytes, communication, communication.fetch);
        break;
      case Communication::Copies:
      case Communication::Served:
        plan_owner(bytes, communication, communication.push);
        break;
      case Communication::FirstGpu:
        if (!communicator_) {
          plan_owner(bytes, communication, communication.fetch);
          break;
        }
        communication.fetch.push_back(collective(Collective::Broadcast, bytes));
        communication.push.push_back(collective(Collective::Reduce, bytes));
        break;
    }
    return communication;
  }

  [[nodiscard]] CommunicationStage plan_crossing(Bytes most) const {
    CommunicationStage stage = collective(Collective::AllToAll, most);
    stage.stream = CommunicationStream::Crossing;
    return stage;
  }

  [[nodiscard]] CommunicationStage plan_additions(double additions) const {
    constexpr double kTags = 256, kTrips = 2 * 2;  // there and back, to read and to swap
    CommunicationStage stage{.stream = CommunicationStream::Crossing, .on_sms = true};
    if (fabric_.num_nodes() > 1) return stage;
    Seconds way{};
    bool is_native = true;
    for (std::size_t r = 1; r < ranks_.size(); ++r) {
      const Route route = fabric_.route(ranks_.front(), ranks_[r]);
      way = max(way, route.latency);
      is_native = is_native && route.kind == RouteKind::Nvlink;
    }
    if (is_native) return plan_crossing(Bytes(4 * additions));
    const double away = 1 - 1 / static_cast<double>(ranks_.size());
    stage.transfer.algorithm = CollectiveAlgorithm::Direct;
    stage.transfer.latency = way * (kTrips * additions * away / kTags);
    return stage;
  }

 private:
  /// Groups of one node's GPUs, and of those with the same number in all nodes.
  void connect_by_node(const CollectiveLibrary& library) {
    const std::uint32_t slots = fabric_.ranks_of(FabricNodeId{0});
    bool are_alike = slots > 1;
    for_each_node([&](FabricNodeId node) { are_alike &= fabric_.ranks_of(node) == slots; });
    if (!are_alike) return;
    std::vector<Rank> node, across;
    for (std::uint32_t slot = 0; slot < slots; ++slot) node.push_back(rank_of({0}, slot));
    in_node_.emplace(fabric_, node, library, PlanLinks::FewOfAlike);
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      across.clear();
      for_each_node([&](FabricNodeId at) { across.push_back(rank_of(at, slot)); });
      across_nodes_.emplace_back(fabric_, across, library, PlanLinks::FewOfAlike);
    }
  }

  /// Scattered in each node, each part summed between nodes, gathered in each node: one after the
  /// other for a bucket, each on a stream of its own.
  void plan_by_node(Bytes bytes, BucketCommunication& communication) const {
    communication.push.push_back(of_group(CommunicationStream::Collective,
                                          in_node_->plan(Collective::ReduceScatter, bytes)));
    // All parts at once, over links that they may share.
    const Bytes part = bytes / static_cast<double>(across_nodes_.size());
    CollectivePlan sum = across_nodes_.front().plan(Collective::AllReduce, part);
    std::map<FabricLinkId, double> weights;
    for (const Communicator& group : across_nodes_) {
      for (const FabricUse& use : group.plan(Collective::AllReduce, part).uses) {
        weights[use.link] += use.weight;
      }
    }
    sum.uses.clear();
    for (const auto& [link, weight] : weights) sum.uses.push_back({link, weight});
    communication.push.push_back(of_group(CommunicationStream::Network, std::move(sum)));
    communication.push.push_back(
        of_group(CommunicationStream::Out, in_node_->plan(Collective::AllGather, bytes)));
  }
  [[nodiscard]] CommunicationStage of_group(CommunicationStream stream, CollectivePlan plan) const {
    return {.stream = stream,
            .transfer = at_most(std::move(plan)),
            .host = strategy_.host_per_bucket,
            .on_sms = on_sms_};
  }

  template <class Visit>
  void for_each_node(Visit visit) const {
    for (std::uint32_t node = 0; node < fabric_.num_nodes(); ++node) visit(FabricNodeId{node});
  }
  [[nodiscard]] Rank rank_of(FabricNodeId node, std::uint32_t slot) const {
    return Rank{fabric_.first_rank(node).index + slot};
  }

  [[nodiscard]] CommunicationStage collective(Collective kind, Bytes bytes) const {
    return {.stream = CommunicationStream::Collective,
            .transfer = at_most(communicator_->plan(kind, bytes)),
            .host = strategy_.host_per_bucket,
            .on_sms = on_sms_};
  }
  /// Under what the library's messages reach.
  [[nodiscard]] CollectivePlan at_most(CollectivePlan plan) const {
    if (strategy_.message_rate > BytesPerSecond(0)) {
      plan.rate_cap =
          plan.rate_cap ? min(*plan.rate_cap, strategy_.message_rate) : strategy_.message_rate;
    }
    return plan;
  }

  void plan_on_host(Bytes bytes, BucketCommunication& communication) {
    const bool remote = fabric_.num_nodes() > 1;
    const auto least = std::min_element(served_.begin(), served_.end());
    const auto server = FabricNodeId{static_cast<std::uint32_t>(least - served_.begin())};
    *least += bytes;
    if (remote) communication.fetch.push_back(of_server(bytes, server, false));
    communication.fetch.push_back(to_and_from_host(bytes, false));
    communication.push.push_back(to_and_from_host(bytes, true));
    if (remote) communication.push.push_back(of_server(bytes, server, true));
    communication.push.push_back(add_on_host(bytes));
  }

  /// Between a server and the workers of all other nodes at once.
  [[nodiscard]] CommunicationStage of_server(Bytes bytes, FabricNodeId server,
                                             bool to_server) const {
    CoupledCopies copies(fabric_, false);
    double workers = 0;
    for_each_node([&](FabricNodeId node) {
      if (node == server) return;
      const double here = fabric_.ranks_of(node);
      copies.add(to_server ? fabric_.route_between_hosts(node, server)
                           : fabric_.route_between_hosts(server, node),
                 here);
      workers += here;
    });
    return {.stream = CommunicationStream::Network,
            .transfer = copies.take(bytes, strategy_.message_rate / workers),
            .host = strategy_.host_per_bucket};
  }

  /// Of every rank at once.
  [[nodiscard]] CommunicationStage to_and_from_host(Bytes bytes, bool to_host) const {
    CoupledCopies copies(fabric_, false);
    for (const Rank rank : ranks_) {
      copies.add(to_host ? fabric_.route_to_host(rank) : fabric_.route_from_host(rank));
    }
    return {.stream = to_host ? CommunicationStream::Collective : CommunicationStream::Out,
            .transfer = copies.take(bytes, BytesPerSecond()),
            .host = strategy_.host_per_bucket};
  }

  /// add_n reads the gradients of the node's ranks and writes the sum; the update reads weight and
  /// sum and writes the weight: (n + 1 + 3) * bytes.
  [[nodiscard]] CommunicationStage add_on_host(Bytes bytes) const {
    CommunicationStage stage{.stream = CommunicationStream::Host};
    const double nodes = fabric_.num_nodes() > 1 ? fabric_.num_nodes() : 1;
    const double touched = static_cast<double>(owned_.size()) * nodes + 4;
    if (strategy_.host_add > BytesPerSecond(0)) stage.host = bytes * touched / strategy_.host_add;
    return stage;
  }

  /// In and out of the GPU of each node that adds this bucket.
  void plan_owner(Bytes bytes, BucketCommunication& communication,
                  std::vector<CommunicationStage>& out) {
    const auto least = strategy_.communication == Communication::FirstGpu
                           ? owned_.begin()
                           : std::min_element(owned_.begin(), owned_.end());
    const auto owner = static_cast<std::uint32_t>(least - owned_.begin());
    *least += bytes;
    CoupledCopies in_copies(fabric_, no_peers_), out_copies(fabric_, no_peers_);
    const bool served = strategy_.communication == Communication::Served;
    const BytesPerSecond most = served ? BytesPerSecond() : strategy_.message_rate;
    bool any = false;
    for_each_node([&](FabricNodeId node) {
      const std::uint32_t ranks = fabric_.ranks_of(node);
      const Rank adder = rank_of(node, owner % std::max(ranks, 1U));
      for (std::uint32_t slot = 0; slot < ranks; ++slot) {
        const Rank other = rank_of(node, slot);
        if (other == adder) continue;
        any = true;
        in_copies.add_between(other, adder);
        out_copies.add_between(adder, other);
      }
    });
    if (any) {
      communication.push.push_back({.stream = CommunicationStream::Collective,
                                    .transfer = in_copies.take(bytes, most),
                                    .host = strategy_.host_per_bucket});
    }
    if (served) {
      add_server(bytes, owner, communication);
    } else {
      add_network(bytes, communication);
    }
    if (any) {
      out.push_back({.stream = CommunicationStream::Out,
                     .transfer = out_copies.take(bytes, most),
                     .host = strategy_.host_per_bucket});
    }
  }

  /// The sum of each node to the servers, of which every node has one with its part of each bucket,
  /// and the updated weight back. Messages go through the process's one thread for them, on one
  /// host too.
  void add_server(Bytes bytes, std::uint32_t owner, BucketCommunication& communication) const {
    const std::uint32_t nodes = fabric_.num_nodes();
    CoupledCopies to_server(fabric_, false), from_server(fabric_, false);
    for_each_node([&](FabricNodeId node) {
      const Rank adder = rank_of(node, owner % std::max(fabric_.ranks_of(node), 1U));
      to_server.add(fabric_.route_to_host(adder));
      from_server.add(fabric_.route_from_host(adder));
      if (nodes == 1) return;
      const Route next = fabric_.route_between_hosts(node, FabricNodeId{(node.index + 1) % nodes});
      const double remote = (nodes - 1.0) / nodes;
      to_server.add(next, remote);
      from_server.add(next, remote);
    });
    communication.push.push_back({.stream = CommunicationStream::Network,
                                  .transfer = to_server.take(bytes, strategy_.message_rate),
                                  .host = strategy_.host_per_bucket});
    communication.push.push_back(update_on_server(bytes));
    communication.push.push_back({.stream = CommunicationStream::Network,
                                  .transfer = from_server.take(bytes, strategy_.message_rate),
                                  .host = strategy_.host_per_bucket});
  }

  /// A server copies the first worker's part (read and written), adds the others' (two read, one
  /// written) and updates (gradient, weight and momentum read, the last two written), all of bytes
  /// / n:  (2 + 3 (n - 1) + 5) * bytes / n.
  [[nodiscard]] CommunicationStage update_on_server(Bytes bytes) const {
    const double nodes = fabric_.num_nodes();
    const double touched = (2 + 3 * (nodes - 1) + 5) / nodes;
    return {.stream = CommunicationStream::Host, .host = bytes * touched / strategy_.host_add};
  }

  void add_network(Bytes bytes, BucketCommunication& communication) const {
    const std::uint32_t nodes = fabric_.num_nodes();
    if (nodes < 2) return;
    CoupledCopies copies(fabric_, false);
    for_each_node([&](FabricNodeId node) {
      copies.add(fabric_.route_between_hosts(node, FabricNodeId{(node.index + 1) % nodes}));
    });
    const double share = 2.0 * (nodes - 1) / nodes;
    communication.push.push_back({.stream = CommunicationStream::Network,
                                  .transfer = copies.take(bytes * share, strategy_.message_rate),
                                  .host = strategy_.host_per_bucket});
  }

  const StrategyProfile& strategy_;
  const Fabric& fabric_;
  std::vector<Rank> ranks_;
  std::vector<Bytes> owned_;   ///< by slot: bytes that this GPU of a node adds
  std::vector<Bytes> served_;  ///< by node: bytes of the variables on its server
  std::optional<Communicator> communicator_;
  std::optional<Communicator> in_node_;     ///< of the first node: where updates are divided
  std::vector<Communicator> across_nodes_;  ///< of GPUs with the same number
  bool on_sms_ = false;
  bool no_peers_ = false;
};

}  // namespace

FabricLinkId staging_link(const Fabric& fabric) { return FabricLinkId{fabric.num_links()}; }

std::vector<BucketCommunication> plan_communication(std::span<const GradientBucket> buckets,
                                                    double wire_share,
                                                    const StrategyProfile& strategy,
                                                    const Fabric& fabric, std::string_view date) {
  Planner planner(strategy, fabric, date);
  std::vector<BucketCommunication> communications;
  communications.reserve(buckets.size());
  for (const GradientBucket& bucket : buckets) {
    communications.push_back(planner.plan(bucket.bytes * wire_share));
    if (bucket.weights_only) communications.back().push.clear();
  }
  return communications;
}

std::vector<CommunicationStage> plan_crossings(std::span<const CrossingWork> works,
                                               const StrategyProfile& strategy,
                                               const Fabric& fabric, std::string_view date) {
  std::vector<CommunicationStage> stages;
  if (works.empty()) return stages;
  const Planner planner(strategy, fabric, date);
  stages.reserve(works.size());
  for (const CrossingWork& work : works) {
    stages.push_back(work.additions > 0 ? planner.plan_additions(work.additions)
                                        : planner.plan_crossing(work.most));
  }
  return stages;
}

}  // namespace tracecast
