#include "sim/cluster/collective.hpp"

#include <algorithm>
#include <map>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Uses of several routes, each link once.
class Uses {
 public:
  void add(const Route& route, double weight) {
    for (const FabricLinkId link : route.links) weights_[link] += weight;
  }
  [[nodiscard]] std::vector<FabricUse> take() const {
    std::vector<FabricUse> uses;
    for (const auto& [link, weight] : weights_) uses.push_back({link, weight});
    return uses;
  }

 private:
  std::map<FabricLinkId, double> weights_;
};

CollectivePlan plan_ring(const Fabric& fabric, std::span<const Rank> ranks, double rounds,
                         Bytes bytes, const CollectiveLibrary& library) {
  const auto n = static_cast<double>(ranks.size());
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Ring;
  plan.bytes = bytes * (rounds * (n - 1) / n);
  Uses uses;
  Seconds step{};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Route route = fabric.route(ranks[i], ranks[(i + 1) % ranks.size()]);
    uses.add(route, 1);
    step = max(step, route.latency);
  }
  plan.latency = library.launch + (step + library.step) * (rounds * (n - 1));
  plan.uses = uses.take();
  return plan;
}

CollectivePlan plan_pairs(const Fabric& fabric, std::span<const Rank> ranks, Bytes bytes,
                          const CollectiveLibrary& library) {
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Direct;
  plan.bytes = bytes / static_cast<double>(ranks.size());
  Uses uses;
  Seconds step{};
  for (const Rank from : ranks) {
    for (const Rank to : ranks) {
      if (from == to) continue;
      const Route route = fabric.route(from, to);
      uses.add(route, 1);
      step = max(step, route.latency);
    }
  }
  plan.latency = library.launch + step + library.step;
  plan.uses = uses.take();
  return plan;
}

CollectivePlan plan_copy(const Fabric& fabric, Rank from, Rank to, Bytes bytes,
                         const CollectiveLibrary& library) {
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Direct;
  plan.bytes = bytes;
  const Route route = fabric.route(from, to);
  Uses uses;
  uses.add(route, 1);
  plan.latency = library.launch + route.latency + library.step;
  plan.uses = uses.take();
  return plan;
}

}  // namespace

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::AllReduce:
      return "all-reduce";
    case Collective::ReduceScatter:
      return "reduce-scatter";
    case Collective::AllGather:
      return "all-gather";
    case Collective::Broadcast:
      return "broadcast";
    case Collective::Reduce:
      return "reduce";
    case Collective::AllToAll:
      return "all-to-all";
    case Collective::SendReceive:
      return "send-receive";
  }
  return "unknown";
}

std::string_view to_string(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::None:
      return "none";
    case CollectiveAlgorithm::Ring:
      return "ring";
    case CollectiveAlgorithm::Tree:
      return "tree";
    case CollectiveAlgorithm::Nvls:
      return "nvls";
    case CollectiveAlgorithm::Direct:
      return "direct";
  }
  return "unknown";
}

std::string_view to_string(CollectiveProtocol protocol) {
  switch (protocol) {
    case CollectiveProtocol::Simple:
      return "simple";
    case CollectiveProtocol::LowLatency:
      return "ll";
    case CollectiveProtocol::LowLatency128:
      return "ll128";
  }
  return "unknown";
}

CollectivePlan plan_collective(const Fabric& fabric, std::span<const Rank> ranks,
                               Collective collective, Bytes bytes,
                               const CollectiveLibrary& library) {
  if (ranks.size() < 2) return {};
  const auto n = static_cast<double>(ranks.size());
  switch (collective) {
    case Collective::AllReduce:
      return plan_ring(fabric, ranks, 2, bytes, library);
    case Collective::ReduceScatter:
    case Collective::AllGather:
      return plan_ring(fabric, ranks, 1, bytes, library);
    case Collective::Broadcast:
    case Collective::Reduce:
      return plan_ring(fabric, ranks, 1, bytes * (n / (n - 1)), library);
    case Collective::AllToAll:
      return plan_pairs(fabric, ranks, bytes, library);
    case Collective::SendReceive:
      return plan_copy(fabric, ranks[0], ranks[1], bytes, library);
  }
  return {};
}

Seconds time_alone(const CollectivePlan& plan, const Fabric& fabric) {
  std::optional<BytesPerSecond> rate = plan.rate_cap;
  for (const FabricUse& use : plan.uses) {
    const BytesPerSecond most = fabric.link(use.link).bandwidth / use.weight;
    rate = rate ? min(*rate, most) : most;
  }
  return rate ? plan.latency + plan.bytes / *rate : plan.latency;
}

std::vector<Rank> all_ranks(const Fabric& fabric) {
  std::vector<Rank> ranks;
  for (std::uint32_t i = 0; i < fabric.num_ranks(); ++i) ranks.push_back({i});
  return ranks;
}

}  // namespace tracecast
