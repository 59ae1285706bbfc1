#include "sim/cluster/exchange.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace tracecast {
namespace {

/// A copy by a DMA engine that waits for an event and signals one. Guess: cudaMemcpyAsync of a few bytes takes about
/// as long between devices.
constexpr Seconds kCopyLatency = 10.0_us;

/// Routes that are used at the same time, each by one copy of the whole bucket.
class CoupledCopies {
 public:
  explicit CoupledCopies(const Fabric& fabric) : fabric_(fabric) {}
  void add(const Route& route, double weight = 1) {
    for (const FabricLinkId link : route.links) weights_[link] += weight;
    latency_ = max(latency_, route.latency);
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
  const Fabric& fabric_;
  std::map<FabricLinkId, double> weights_;
  Seconds latency_{};
};

class Planner {
 public:
  Planner(const StrategyProfile& strategy, const Fabric& fabric)
      : strategy_(strategy), fabric_(fabric), ranks_(all_ranks(fabric)) {
    std::uint32_t most = 0;
    for (std::uint32_t node = 0; node < fabric.num_nodes(); ++node) {
      most = std::max(most, fabric.ranks_of(FabricNodeId{node}));
    }
    owned_.assign(most, Bytes());
    if (strategy.library == "nccl") library_ = find_collective_library(strategy.library);
  }

  BucketExchange plan(Bytes bytes) {
    BucketExchange exchange{.fetch = {}, .push = {}, .bytes = bytes};
    switch (strategy_.exchange) {
      case Exchange::AllReduce:
        exchange.push.push_back(collective(Collective::AllReduce, bytes));
        break;
      case Exchange::OnHost:
        exchange.fetch.push_back(to_and_from_host(bytes, false));
        exchange.push.push_back(to_and_from_host(bytes, true));
        exchange.push.push_back(add_on_host(bytes));
        add_network(bytes, exchange);
        break;
      case Exchange::Spread:
        plan_owner(bytes, exchange, exchange.fetch);
        break;
      case Exchange::Copies:
        plan_owner(bytes, exchange, exchange.push);
        break;
      case Exchange::FirstGpu:
        plan_first_gpu(bytes, exchange);
        break;
    }
    return exchange;
  }

 private:
  template <class Visit>
  void for_each_node(Visit visit) const {
    for (std::uint32_t node = 0; node < fabric_.num_nodes(); ++node) visit(FabricNodeId{node});
  }
  [[nodiscard]] Rank rank_of(FabricNodeId node, std::uint32_t slot) const {
    return Rank{fabric_.first_rank(node).index + slot};
  }

  [[nodiscard]] ExchangeStage collective(Collective kind, Bytes bytes) const {
    return {.stream = ExchangeStream::Collective,
            .transfer = plan_collective(fabric_, ranks_, kind, bytes, *library_),
            .host = strategy_.host_per_bucket};
  }

  /// Of every rank at once.
  [[nodiscard]] ExchangeStage to_and_from_host(Bytes bytes, bool to_host) const {
    CoupledCopies copies(fabric_);
    for (const Rank rank : ranks_) {
      copies.add(to_host ? fabric_.route_to_host(rank) : fabric_.route_from_host(rank));
    }
    return {.stream = to_host ? ExchangeStream::Collective : ExchangeStream::Out,
            .transfer = copies.take(bytes, strategy_.message_rate),
            .host = strategy_.host_per_bucket};
  }

  /// add_n reads the gradients of the node's ranks and writes the sum; the update reads weight and sum and writes the
  /// weight: (n + 1 + 3) * bytes.
  [[nodiscard]] ExchangeStage add_on_host(Bytes bytes) const {
    ExchangeStage stage{.stream = ExchangeStream::Host};
    const double touched = static_cast<double>(owned_.size()) + 4;
    if (strategy_.host_add > BytesPerSecond(0)) stage.host = bytes * touched / strategy_.host_add;
    return stage;
  }

  /// In and out of the GPU of each node that adds this bucket.
  void plan_owner(Bytes bytes, BucketExchange& exchange, std::vector<ExchangeStage>& out) {
    const auto least = std::min_element(owned_.begin(), owned_.end());
    const auto owner = static_cast<std::uint32_t>(least - owned_.begin());
    *least += bytes;
    CoupledCopies in_copies(fabric_), out_copies(fabric_);
    bool any = false;
    for_each_node([&](FabricNodeId node) {
      const std::uint32_t ranks = fabric_.ranks_of(node);
      const Rank adder = rank_of(node, owner % std::max(ranks, 1U));
      for (std::uint32_t slot = 0; slot < ranks; ++slot) {
        const Rank other = rank_of(node, slot);
        if (other == adder) continue;
        any = true;
        in_copies.add(fabric_.route(other, adder));
        out_copies.add(fabric_.route(adder, other));
      }
    });
    if (any) {
      exchange.push.push_back({.stream = ExchangeStream::Collective,
                               .transfer = in_copies.take(bytes, strategy_.message_rate),
                               .host = strategy_.host_per_bucket});
    }
    add_network(bytes, exchange);
    if (any) {
      out.push_back({.stream = ExchangeStream::Out,
                     .transfer = out_copies.take(bytes, strategy_.message_rate),
                     .host = strategy_.host_per_bucket});
    }
  }

  void plan_first_gpu(Bytes bytes, BucketExchange& exchange) {
    if (library_) {
      exchange.fetch.push_back(collective(Collective::Broadcast, bytes));
      exchange.push.push_back(collective(Collective::Reduce, bytes));
      return;
    }
    // Up and down a binary tree: partners at distance 1, 2, 4 ...
    std::vector<ExchangeStage> down;
    for (std::uint32_t distance = 1; distance < owned_.size(); distance *= 2) {
      CoupledCopies up(fabric_), back(fabric_);
      for_each_node([&](FabricNodeId node) {
        for (std::uint32_t slot = 0; slot + distance < fabric_.ranks_of(node);
             slot += 2 * distance) {
          up.add(fabric_.route(rank_of(node, slot + distance), rank_of(node, slot)));
          back.add(fabric_.route(rank_of(node, slot), rank_of(node, slot + distance)));
        }
      });
      exchange.push.push_back({.stream = ExchangeStream::Collective,
                               .transfer = up.take(bytes, strategy_.message_rate),
                               .host = strategy_.host_per_bucket});
      down.insert(down.begin(), {.stream = ExchangeStream::Out,
                                 .transfer = back.take(bytes, strategy_.message_rate),
                                 .host = strategy_.host_per_bucket});
    }
    add_network(bytes, exchange);
    exchange.fetch = std::move(down);
  }

  void add_network(Bytes bytes, BucketExchange& exchange) const {
    const std::uint32_t nodes = fabric_.num_nodes();
    if (nodes < 2) return;
    CoupledCopies copies(fabric_);
    for_each_node([&](FabricNodeId node) {
      copies.add(fabric_.route_between_hosts(node, FabricNodeId{(node.index + 1) % nodes}));
    });
    const double share = 2.0 * (nodes - 1) / nodes;
    exchange.push.push_back({.stream = ExchangeStream::Network,
                             .transfer = copies.take(bytes * share, strategy_.message_rate),
                             .host = strategy_.host_per_bucket});
  }

  const StrategyProfile& strategy_;
  const Fabric& fabric_;
  std::vector<Rank> ranks_;
  std::vector<Bytes> owned_;  ///< by slot: bytes that this GPU of a node adds
  std::optional<CollectiveLibrary> library_;
};

}  // namespace

std::vector<BucketExchange> plan_exchange(std::span<const GradientBucket> buckets,
                                          double wire_share, const StrategyProfile& strategy,
                                          const Fabric& fabric) {
  Planner planner(strategy, fabric);
  std::vector<BucketExchange> exchanges;
  exchanges.reserve(buckets.size());
  for (const GradientBucket& bucket : buckets) {
    exchanges.push_back(planner.plan(bucket.bytes * wire_share));
  }
  return exchanges;
}

}  // namespace tracecast
