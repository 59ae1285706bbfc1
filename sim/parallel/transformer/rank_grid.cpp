#include "sim/parallel/transformer/rank_grid.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "sim/step/step_account.hpp"

namespace tracecast {

Joules GroupCommunication::energy(const GpuSpec& gpu, const CostProfile& cost) const {
  return collective_power(bytes, time, channels, gpu, cost) * time;
}

RankGrid::Place RankGrid::place_of(std::int64_t rank) const {
  Place place{};
  place.tensor = rank % plan_.tensor;
  rank /= plan_.tensor;
  place.context = rank % plan_.context;
  rank /= plan_.context;
  place.data = rank % plan_.data;
  place.pipeline = rank / plan_.data;
  return place;
}

Rank RankGrid::rank_at(const Place& p) const {
  return Rank{static_cast<std::uint32_t>(
      p.tensor + plan_.tensor * (p.context + plan_.context * (p.data + plan_.data * p.pipeline)))};
}

std::int64_t RankGrid::token_index(const Place& p) const {
  const std::int64_t index = p.context + plan_.context * p.data;
  return plan_.sequence_parallel ? p.tensor + plan_.tensor * index : index;
}

Rank RankGrid::with_tokens(Place place, std::int64_t index) const {
  if (plan_.sequence_parallel) {
    place.tensor = index % plan_.tensor;
    index /= plan_.tensor;
  }
  place.context = index % plan_.context;
  place.data = index / plan_.context;
  return rank_at(place);
}

template <class Members>
RankGrid::Groups RankGrid::groups_on_first_node(Members members) const {
  Groups groups;
  std::set<std::uint32_t> seen;
  const std::uint32_t here = fabric_.ranks_of(fabric_.node_of(Rank{0}));
  for (std::uint32_t r = 0; r < here; ++r) {
    std::vector<Rank> group = members(place_of(r));
    if (group.size() < 2 || !seen.insert(group.front().index).second) continue;
    groups.push_back(std::move(group));
  }
  return groups;
}

GroupCommunication RankGrid::together(const Groups& groups, Collective what, Bytes bytes) const {
  GroupCommunication result;
  std::vector<CollectivePlan> plans;
  std::map<std::uint32_t, double> weight;
  for (const std::vector<Rank>& group : groups) {
    plans.push_back(plan_collective(fabric_, group, what, bytes, library_));
    for (const FabricUse& use : plans.back().uses) weight[use.link.index] += use.weight;
  }
  for (const CollectivePlan& plan : plans) {
    Seconds sending{};
    for (const FabricUse& use : plan.uses) {
      const BytesPerSecond share = fabric_.link(use.link).bandwidth * (1 / weight[use.link.index]);
      sending = max(sending, plan.bytes / share);
    }
    if (plan.rate_cap) sending = max(sending, plan.bytes / *plan.rate_cap);
    result.time = max(result.time, plan.latency + sending);
    result.channels = std::max(result.channels, plan.channels);
    result.bytes = max(result.bytes, plan.bytes);
  }
  return result;
}

std::vector<Rank> RankGrid::group_of(ShardGroup group, Place place) const {
  std::vector<Rank> ranks;
  const auto add = [&](std::int64_t& coordinate, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      coordinate = first + i;
      ranks.push_back(rank_at(place));
    }
  };
  switch (group) {
    case ShardGroup::Tensor:
      add(place.tensor, 0, plan_.tensor);
      break;
    case ShardGroup::Context:
      add(place.context, 0, plan_.context);
      break;
    case ShardGroup::Expert: {
      const std::int64_t first = token_index(place) / plan_.expert * plan_.expert;
      for (std::int64_t i = 0; i < plan_.expert; ++i)
        ranks.push_back(with_tokens(place, first + i));
      break;
    }
  }
  return ranks;
}

GroupCommunication RankGrid::communication_tokens(Bytes whole, double per_token) const {
  const auto share = [&](double parts) {
    return parts * (1 - std::pow(1 - 1 / parts, per_token)) / per_token;
  };
  const Bytes to_ranks = whole * share(static_cast<double>(plan_.expert));
  std::set<std::uint32_t> nodes;
  for (const Rank rank : group_of(ShardGroup::Expert, place_of(0))) {
    nodes.insert(fabric_.node_of(rank).index);
  }
  if (nodes.size() == 1)
    return communication(ShardGroup::Expert, ShardCommunication::AllToAll, to_ranks);
  const Groups within = groups_on_first_node([&](Place place) {
    std::vector<Rank> ranks = group_of(ShardGroup::Expert, place);
    std::erase_if(ranks, [&](Rank rank) { return fabric_.node_of(rank) != FabricNodeId{0}; });
    return ranks;
  });
  const Groups across = groups_on_first_node([&](Place place) {
    const std::uint32_t here = fabric_.ranks_of(FabricNodeId{0}), slot = rank_at(place).index;
    std::vector<Rank> ranks = group_of(ShardGroup::Expert, place);
    std::erase_if(ranks, [&](Rank rank) { return rank.index % here != slot; });
    return ranks;
  });
  const GroupCommunication inside = together(within, Collective::AllToAll, to_ranks);
  const GroupCommunication outside =
      together(across, Collective::AllToAll, whole * share(static_cast<double>(nodes.size())));
  return inside.time < outside.time ? outside : inside;
}

GroupCommunication RankGrid::communication(ShardGroup group, ShardCommunication what,
                                           Bytes whole) const {
  const Groups groups = groups_on_first_node([&](Place place) { return group_of(group, place); });
  switch (what) {
    case ShardCommunication::AllReduce:
      return together(groups, Collective::AllReduce, whole);
    case ShardCommunication::ReduceScatter:
      return together(groups, Collective::ReduceScatter, whole);
    case ShardCommunication::AllGather:
    case ShardCommunication::Ring:
      return together(groups, Collective::AllGather, whole);
    case ShardCommunication::AllToAll:
      return together(groups, Collective::AllToAll, whole);
  }
  return {};
}

GroupCommunication RankGrid::send(Bytes message) const {
  if (plan_.pipeline == 1) return {};
  const Groups pairs = groups_on_first_node([&](Place place) {
    if (place.pipeline + 1 >= plan_.pipeline) return std::vector<Rank>{};
    Place next = place;
    ++next.pipeline;
    return std::vector<Rank>{rank_at(place), rank_at(next)};
  });
  return together(pairs, Collective::SendReceive, message);
}

GroupCommunication RankGrid::reduce_gradients(Collective what, Bytes whole,
                                              std::int64_t ranks) const {
  const std::int64_t all = plan_.data * plan_.context;
  ranks = std::clamp<std::int64_t>(ranks, 1, all);
  if (ranks == 1) return {};
  const Groups groups = groups_on_first_node([&](Place place) {
    std::vector<Rank> group;
    const std::int64_t at = place.data * plan_.context + place.context;
    const std::int64_t first = at / ranks * ranks;
    for (std::int64_t i = first; i < first + ranks; ++i) {
      place.context = i % plan_.context;
      place.data = i / plan_.context;
      group.push_back(rank_at(place));
    }
    return group;
  });
  return together(groups, what, whole);
}

GroupCommunication RankGrid::reduce_experts(Collective what, Bytes whole) const {
  if (plan_.expert_copies() == 1) return {};
  const Groups groups = groups_on_first_node([&](Place place) {
    std::vector<Rank> group;
    for (std::int64_t i = token_index(place) % plan_.expert; i < plan_.ranks_with_tokens();
         i += plan_.expert) {
      group.push_back(with_tokens(place, i));
    }
    return group;
  });
  return together(groups, what, whole);
}

GroupCommunication RankGrid::reduce_over_copies(Bytes part, std::int64_t sharing) const {
  const std::int64_t all = plan_.data * plan_.context;
  if (sharing >= all) return {};
  const Groups groups = groups_on_first_node([&](Place place) {
    std::vector<Rank> group;
    const std::int64_t at = place.data * plan_.context + place.context;
    for (std::int64_t i = at % sharing; i < all; i += sharing) {
      place.context = i % plan_.context;
      place.data = i / plan_.context;
      group.push_back(rank_at(place));
    }
    return group;
  });
  return together(groups, Collective::AllReduce, part);
}

GroupCommunication RankGrid::tie_embeddings(Bytes whole) const {
  if (plan_.pipeline == 1) return {};
  const Groups pairs = groups_on_first_node([&](Place place) {
    if (place.pipeline != 0) return std::vector<Rank>{};
    Place last = place;
    last.pipeline = plan_.pipeline - 1;
    return std::vector<Rank>{rank_at(place), rank_at(last)};
  });
  return together(pairs, Collective::AllReduce, whole);
}

}  // namespace tracecast
