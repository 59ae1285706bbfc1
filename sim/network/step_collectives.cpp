#include "sim/network/step_collectives.hpp"

#include <algorithm>
#include <bit>

namespace tracecast {
namespace {

constexpr std::size_t kMostCountedRanks = 256;
constexpr Bytes kRingFromChunk(64 * 1024);

BytesPerSecond rate_of(const Route& route, const Fabric& fabric) {
  UseSum sum;
  sum.add(route, 1);
  const auto uses = sum.take();
  return slowest(uses, fabric).value_or(BytesPerSecond(0));
}

/// Time of a byte through the hosts of two ranks, one leg after the other.
double seconds_per_byte(const Fabric& fabric, Rank from, Rank to) {
  double sum = 1 / rate_of(fabric.route_to_host(from), fabric).in_si() +
               1 / rate_of(fabric.route_from_host(to), fabric).in_si();
  const FabricNodeId a = fabric.node_of(from), b = fabric.node_of(to);
  if (a != b) sum += 1 / rate_of(fabric.route_between_hosts(a, b), fabric).in_si();
  return sum;
}

double num_steps(Collective collective, std::size_t ranks, Bytes chunk) {
  const auto n = static_cast<double>(ranks);
  const auto halving = static_cast<double>(std::bit_width(ranks - 1));  // ceil(log2)
  const double one_way = chunk >= kRingFromChunk ? n - 1 : halving;
  switch (collective) {
    case Collective::AllReduce:
      return 2 * one_way;
    case Collective::ReduceScatter:
    case Collective::AllGather:
      return one_way;
    case Collective::Broadcast:
    case Collective::Reduce:
      return halving;
    case Collective::AllToAll:
      return n - 1;
    case Collective::SendReceive:
      return 1;
  }
  return 1;
}

}  // namespace

CollectivePlan one_message(const Fabric& fabric, Rank from, Rank to, Bytes bytes) {
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Direct;
  plan.bytes = bytes;
  plan.channels = 1;
  const Route route = fabric.route(from, to);
  UseSum sum;
  sum.add(route, 1);
  plan.latency = route.latency;
  plan.uses = sum.take();
  return plan;
}

CollectivePlan all_pairs(const Fabric& fabric, std::span<const Rank> ranks, Bytes bytes) {
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Direct;
  plan.channels = 1;
  plan.bytes = bytes / static_cast<double>(ranks.size());
  UseSum sum;
  const bool counted = ranks.size() <= kMostCountedRanks;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const FabricNodeId node = fabric.node_of(ranks[i]);
    double elsewhere = 0;
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      if (i == j) continue;
      if (!counted && fabric.node_of(ranks[j]) != node) {
        ++elsewhere;
        continue;
      }
      sum.add(fabric.route(ranks[i], ranks[j]), 1);
    }
    if (elsewhere == 0) continue;
    std::size_t next = (i + fabric.ranks_of(node)) % ranks.size();
    while (fabric.node_of(ranks[next]) == node) next = (next + 1) % ranks.size();
    sum.add(fabric.route(ranks[i], ranks[next]), elsewhere);
  }
  plan.uses = sum.take();
  return plan;
}

HostEdges find_host_edges(const Fabric& fabric, std::span<const Rank> ranks) {
  HostEdges edges;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Rank from = ranks[i], to = ranks[(i + 1) % ranks.size()];
    edges.seconds_per_byte = std::max(edges.seconds_per_byte, seconds_per_byte(fabric, from, to));
    edges.latency = max(edges.latency, fabric.route(from, to).latency);
  }
  return edges;
}

CollectivePlan plan_host_steps(const Fabric& fabric, std::span<const Rank> ranks,
                               const RingWays& rings, const HostEdges& edges, Collective collective,
                               Bytes bytes, const CollectiveLibrary& library) {
  CollectivePlan plan;
  plan.channels = 1;
  if (collective == Collective::SendReceive) {
    plan = one_message(fabric, ranks[0], ranks[1], bytes);
    plan.latency += library.step;
    plan.rate_cap = BytesPerSecond(1 / seconds_per_byte(fabric, ranks[0], ranks[1]));
    return plan;
  }
  const Bytes chunk = bytes / static_cast<double>(ranks.size());
  plan.algorithm = CollectiveAlgorithm::Ring;
  plan.bytes = bytes * bus_factor(collective, ranks.size());
  plan.uses = rings.uses;
  plan.rate_cap = BytesPerSecond(1 / edges.seconds_per_byte);
  plan.latency = num_steps(collective, ranks.size(), chunk) * (library.step + edges.latency);
  return plan;
}

CollectivePlan plan_tree_copies(const Fabric& fabric, std::span<const Rank> ranks,
                                Collective collective, Bytes bytes,
                                const CollectiveLibrary& library) {
  if (collective == Collective::SendReceive || collective == Collective::AllToAll) {
    CollectivePlan plan = collective == Collective::AllToAll
                              ? all_pairs(fabric, ranks, bytes)
                              : one_message(fabric, ranks[0], ranks[1], bytes);
    plan.latency += library.step;
    return plan;
  }
  const bool up = collective != Collective::Broadcast && collective != Collective::AllGather;
  const bool down = collective != Collective::Reduce && collective != Collective::ReduceScatter;
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Tree;
  plan.channels = 1;
  UseSum all;
  double seconds_per_byte = 0, levels = 0;
  for (std::size_t first = 1; first < ranks.size(); first = 2 * first + 1) {
    const std::size_t last = std::min(2 * first + 1, ranks.size());
    for (const bool upward : {true, false}) {
      if (!(upward ? up : down)) continue;
      UseSum level;
      Seconds farthest{};
      for (std::size_t child = first; child < last; ++child) {
        const Rank a = ranks[child], b = ranks[(child - 1) / 2];
        const Route route = upward ? fabric.route(a, b) : fabric.route(b, a);
        level.add(route, 1);
        all.add(route, 1);
        farthest = max(farthest, route.latency);
      }
      const auto uses = level.take();
      seconds_per_byte += 1 / slowest(uses, fabric).value_or(BytesPerSecond(1)).in_si();
      plan.latency += library.step + farthest;
      ++levels;
    }
  }
  // One level at a time: on average over the levels a link is taken for its share of them.
  plan.bytes = bytes * levels;
  plan.rate_cap = BytesPerSecond(levels / seconds_per_byte);
  plan.uses = all.take();
  for (FabricUse& use : plan.uses) use.weight /= levels;
  return plan;
}

}  // namespace tracecast
