#include "sim/network/node_collective.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

constexpr Bytes kKib(1024);
/// A buffer of this size has work for several blocks.
constexpr Bytes kUncertainty = kKib * 64;
/// GPUs that reduce in a switch, of however many: NCCL_MAX_NVLS_ARITY (NVIDIA NCCL 2.23 to 2.28,
/// src/include/device.h).
constexpr double kMostHeads = 32;
/// Guess, of the logarithm of time per factor of e in GPUs beyond those that were measured
/// together.
constexpr double kBeyondMeasured = 0.2, kMostMeasured = 8;

EfficiencyLink link_of(const RingWays& rings) {
  return rings.farthest <= RouteKind::Nvlink ? EfficiencyLink::Nvlink : EfficiencyLink::Pcie;
}

double passes_of(Collective collective) { return collective == Collective::AllReduce ? 2 : 1; }

bool is_chain(Collective collective) {
  return collective == Collective::Broadcast || collective == Collective::Reduce;
}

/// Chunk of a reduction in the switch: NCCL's rule, `at_once` chunks being under way.
Bytes switch_chunk(Bytes bytes, double at_once) {
  Bytes chunk = kKib * 128;
  for (const auto& [rounds, smaller] : {std::pair(64.0, 64.0), {8.0, 32.0}, {2.0, 16.0}}) {
    if (bytes < chunk * (rounds * at_once)) chunk = min(chunk, kKib * smaller);
  }
  return chunk;
}

}  // namespace

std::optional<NodeCollective> NodeCollective::find(const RingWays& rings,
                                                   const CollectiveLibrary& library,
                                                   const CollectiveEfficiency& efficiency) {
  if (!library.is_limited || rings.num_nodes != 1 || rings.num_ranks < 2) return std::nullopt;
  if (rings.bandwidth <= BytesPerSecond(0)) return std::nullopt;
  const GenerationFactors* generation =
      efficiency.find_generation(link_of(rings), rings.capability);
  if (generation == nullptr) return std::nullopt;
  return NodeCollective(rings, library, efficiency, *generation);
}

void NodeCollective::set(CollectivePlan& plan, Seconds total, Bytes edge_bytes,
                         double link_fraction) const {
  plan.bytes = edge_bytes;
  plan.rate_cap = std::nullopt;
  plan.uses = rings_->uses;
  for (FabricUse& use : plan.uses) use.weight /= link_fraction;
  plan.latency = max(Seconds(0), total - edge_bytes / (rings_->bandwidth * link_fraction));
}

bool NodeCollective::set_ring(CollectivePlan& plan, Collective collective, Bytes bytes) const {
  const RingEfficiency* efficiency = efficiency_->find_ring(generation_.link, plan.protocol);
  if (efficiency == nullptr || plan.algorithm != CollectiveAlgorithm::Ring) return false;
  const Seconds hop = hop_;
  const double n = rings_->num_ranks, passes = passes_of(collective), slices = efficiency->slices;
  const double steps = passes * (n - 1);
  const BytesPerSecond rate = rings_->bandwidth * efficiency->link_fraction;
  const Seconds start = start_ + efficiency->start_hops * hop;
  if (is_chain(collective)) {
    set(plan, start + steps * efficiency->step_hops * hop + bytes / rate, bytes,
        efficiency->link_fraction);
    return true;
  }
  const Seconds chunk = bytes / n / rate;
  const Seconds step = max(chunk + slices * efficiency->slice_hops * hop,
                           chunk / slices + efficiency->step_hops * hop);
  const double uncertainty = efficiency->distributed_hops * std::min(1.0, bytes / kUncertainty);
  const double local = passes * efficiency->local_per_pass + efficiency->local_once;
  set(plan, start + uncertainty * hop + steps * step + local * chunk, bytes * (steps / n),
      efficiency->link_fraction);
  return true;
}

void NodeCollective::set_switch(CollectivePlan& plan, Bytes bytes, int channels) const {
  const SwitchEfficiency& efficiency = efficiency_->nvls;
  const double heads = std::min<double>(rings_->num_ranks, kMostHeads), at_once = channels * heads;
  const Bytes chunk = switch_chunk(bytes, at_once);
  const double rounds = std::max(1.0, bytes / (chunk * at_once));
  const BytesPerSecond rate = rings_->bandwidth * efficiency.link_fraction;
  const double copied = 1 + 1 / heads;
  const Seconds round =
      efficiency.round_hops * std::pow(heads / 8, efficiency.gpus_exponent) * hop_ +
      min(bytes, chunk * at_once) * copied / rate;
  set(plan, (rounds + efficiency.fill_rounds) * round, bytes * copied, efficiency.link_fraction);
}

bool NodeCollective::set_messages(CollectivePlan& plan, Collective collective,
                                  const Fabric& fabric) const {
  const MessageEfficiency* efficiency = efficiency_->find_messages(generation_.link);
  if (efficiency == nullptr) return false;
  const bool pair = collective == Collective::SendReceive;
  const double n = pair ? 2 : rings_->num_ranks;
  const Bytes message = plan.bytes;
  const double fraction = pair ? efficiency->pair_fraction : efficiency->link_fraction;
  // Over PCIe the messages go in rounds, each as slow as its slowest edge.
  if (generation_.link == EfficiencyLink::Pcie && !pair) {
    plan.uses = rings_->uses;
    plan.bytes = message * (n - 1);
  }
  const double growth = efficiency->grow > Bytes(0)
                            ? efficiency->grow_hops * (message / (message + efficiency->grow))
                            : 0;
  const BytesPerSecond rate = slowest(plan.uses, fabric).value_or(rings_->bandwidth) * fraction;
  const double local = pair ? 0 : efficiency->local_share / (n - 1);
  // What a larger message costs at first is hidden by its own bytes later on where nothing else
  // shares the blocks.
  const Seconds bytes = plan.bytes / rate, grown = growth * hop_;
  const Seconds both = pair ? Seconds(std::hypot(bytes.in_s(), grown.in_s())) : bytes + grown;
  plan.latency = start_ + (efficiency->start_hops + efficiency->peer_hops * (n - 2)) * hop_ +
                 local * bytes + (both - bytes);
  for (FabricUse& use : plan.uses) use.weight /= fraction;
  return true;
}

std::optional<CollectivePlan> NodeCollective::find_kernel(Bytes bytes) const {
  if (generation_.link != EfficiencyLink::Nvlink) return std::nullopt;
  const auto ranks = static_cast<int>(rings_->num_ranks);
  const EngineKernel* found = nullptr;
  for (const EngineKernel& kernel : library_->kernels) {
    if (kernel.from_capability > rings_->capability || kernel.ranks < ranks) continue;
    const bool nearer =
        found == nullptr || kernel.from_capability > found->from_capability ||
        (kernel.from_capability == found->from_capability &&
         (kernel.ranks < found->ranks || (kernel.ranks == found->ranks && found->most < bytes)));
    if (nearer) found = &kernel;
  }
  if (found == nullptr || found->most < bytes) return std::nullopt;
  const KernelEfficiency* efficiency = efficiency_->find_kernel(library_->id, found->algorithm);
  if (efficiency == nullptr) return std::nullopt;
  const double n = ranks;
  const double copies = found->algorithm == KernelAlgorithm::OneShot   ? n - 1
                        : found->algorithm == KernelAlgorithm::TwoShot ? 2 * (n - 1) / n
                                                                       : 1 + 1 / n;
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Direct;
  plan.channels = 1;
  const Seconds latency =
      efficiency->start + (efficiency->start_hops + efficiency->rank_hops * (n - 2)) * hop_;
  BytesPerSecond rate = rings_->bandwidth * efficiency->link_fraction;
  std::optional<BytesPerSecond> cap;
  if (efficiency->window > Bytes(0)) cap = efficiency->window / (3 * hop_);
  if (cap) rate = min(rate, *cap);
  set(plan, latency + bytes * copies / rate, bytes * copies, efficiency->link_fraction);
  plan.latency = latency;
  plan.rate_cap = cap;
  return plan;
}

double NodeCollective::log_sd(Bytes bytes, bool is_kernel) const {
  const double measured = efficiency_->log_sd(generation_.link, bytes, is_kernel);
  return std::hypot(measured,
                    kBeyondMeasured * std::log(std::max(1.0, rings_->num_ranks / kMostMeasured)));
}

}  // namespace tracecast
