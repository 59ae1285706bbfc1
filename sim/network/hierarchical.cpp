#include "sim/network/hierarchical.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/network/ring_ways.hpp"

namespace tracecast {

CollectivePlan plan_together(std::span<const CollectivePlan> plans) {
  CollectivePlan together;
  for (const CollectivePlan& plan : plans) {
    together.latency = max(together.latency, plan.latency);
    if (plan.bytes <= together.bytes) continue;
    together.bytes = plan.bytes;
    together.algorithm = plan.algorithm;
    together.protocol = plan.protocol;
    together.channels = plan.channels;
  }
  UseSum sum;
  for (const CollectivePlan& plan : plans) {
    if (plan.bytes <= Bytes(0)) continue;
    const double share = plan.bytes / together.bytes;
    for (const FabricUse& use : plan.uses) sum.add(use.link, use.weight * share);
    if (!plan.rate_cap) continue;
    const BytesPerSecond cap = *plan.rate_cap / share;
    together.rate_cap = together.rate_cap ? min(*together.rate_cap, cap) : cap;
  }
  together.uses = sum.take();
  return together;
}

std::array<CollectivePlan, 3> plan_hierarchical(const Fabric& fabric, std::span<const Rank> ranks,
                                                Bytes bytes, const CollectiveLibrary& within,
                                                const CollectiveLibrary& across) {
  std::map<FabricNodeId, std::vector<Rank>> nodes;
  for (const Rank rank : ranks) nodes[fabric.node_of(rank)].push_back(rank);
  std::size_t parts = ranks.size();
  std::vector<CollectivePlan> scatter, gather, reduce;
  for (const auto& [node, members] : nodes) {
    parts = std::min(parts, members.size());
    const Communicator local(fabric, members, within);
    scatter.push_back(local.plan(Collective::ReduceScatter, bytes));
    gather.push_back(local.plan(Collective::AllGather, bytes));
  }
  for (std::size_t part = 0; part < parts && nodes.size() > 1; ++part) {
    std::vector<Rank> peers;
    for (const auto& [node, members] : nodes) peers.push_back(members[part]);
    reduce.push_back(plan_collective(fabric, peers, Collective::AllReduce,
                                     bytes / static_cast<double>(parts), across));
  }
  return {plan_together(scatter), plan_together(reduce), plan_together(gather)};
}

}  // namespace tracecast
