#include "sim/network/paced_collective.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

constexpr Bytes kKib(1024);
/// A buffer of this size has work for several blocks.
constexpr Bytes kSpread = kKib * 64;
/// GPUs that reduce in a switch, of however many: NCCL_MAX_NVLS_ARITY (NVIDIA NCCL 2.23 to 2.28, src/include/device.h).
constexpr double kMostHeads = 32;
/// Guess, of the logarithm of time per factor of e in GPUs beyond those that were measured together.
constexpr double kBeyondMeasured = 0.2, kMostMeasured = 8;

PaceLink link_of(const RingWays& rings) {
  return rings.farthest <= RouteKind::Nvlink ? PaceLink::Nvlink : PaceLink::Pcie;
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

std::optional<PacedNode> PacedNode::find(const RingWays& rings, const CollectiveLibrary& library,
                                         const CollectivePace& pace) {
  if (!library.is_paced || rings.num_nodes != 1 || rings.num_ranks < 2) return std::nullopt;
  if (rings.bandwidth <= BytesPerSecond(0)) return std::nullopt;
  const GenerationPace* generation = pace.find_generation(link_of(rings), rings.capability);
  if (generation == nullptr) return std::nullopt;
  return PacedNode(rings, library, pace, *generation);
}

void PacedNode::set(CollectivePlan& plan, Seconds total, Bytes edge_bytes,
                    double link_fraction) const {
  plan.bytes = edge_bytes;
  plan.rate_cap = std::nullopt;
  plan.uses = rings_->uses;
  for (FabricUse& use : plan.uses) use.weight /= link_fraction;
  plan.latency = max(Seconds(0), total - edge_bytes / (rings_->bandwidth * link_fraction));
}

bool PacedNode::set_ring(CollectivePlan& plan, Collective collective, Bytes bytes) const {
  const RingPace* pace = pace_->find_ring(generation_.link, plan.protocol);
  if (pace == nullptr || plan.algorithm != CollectiveAlgorithm::Ring) return false;
  const Seconds hop = hop_;
  const double n = rings_->num_ranks, passes = passes_of(collective), slices = pace->slices;
  const double steps = passes * (n - 1);
  const BytesPerSecond rate = rings_->bandwidth * pace->link_fraction;
  const Seconds start = start_ + pace->start_hops * hop;
  if (is_chain(collective)) {
    set(plan, start + steps * pace->step_hops * hop + bytes / rate, bytes, pace->link_fraction);
    return true;
  }
  const Seconds chunk = bytes / n / rate;
  const Seconds step =
      max(chunk + slices * pace->slice_hops * hop, chunk / slices + pace->step_hops * hop);
  const double spread = pace->spread_hops * std::min(1.0, bytes / kSpread);
  const double local = passes * pace->local_per_pass + pace->local_once;
  set(plan, start + spread * hop + steps * step + local * chunk, bytes * (steps / n),
      pace->link_fraction);
  return true;
}

void PacedNode::set_switch(CollectivePlan& plan, Bytes bytes, int channels) const {
  const SwitchPace& pace = pace_->nvls;
  const double heads = std::min<double>(rings_->num_ranks, kMostHeads), at_once = channels * heads;
  const Bytes chunk = switch_chunk(bytes, at_once);
  const double rounds = std::max(1.0, bytes / (chunk * at_once));
  const BytesPerSecond rate = rings_->bandwidth * pace.link_fraction;
  const double copied = 1 + 1 / heads;
  const Seconds round = pace.round_hops * std::pow(heads / 8, pace.gpus_exponent) * hop_ +
                        min(bytes, chunk * at_once) * copied / rate;
  set(plan, (rounds + pace.fill_rounds) * round, bytes * copied, pace.link_fraction);
}

bool PacedNode::set_messages(CollectivePlan& plan, Collective collective,
                             const Fabric& fabric) const {
  const MessagePace* pace = pace_->find_messages(generation_.link);
  if (pace == nullptr) return false;
  const bool pair = collective == Collective::SendReceive;
  const double n = pair ? 2 : rings_->num_ranks;
  const Bytes message = plan.bytes;
  const double fraction = pair ? pace->pair_fraction : pace->link_fraction;
  // Over PCIe the messages go in rounds, each as slow as its slowest edge.
  if (generation_.link == PaceLink::Pcie && !pair) {
    plan.uses = rings_->uses;
    plan.bytes = message * (n - 1);
  }
  const double growth =
      pace->grow > Bytes(0) ? pace->grow_hops * (message / (message + pace->grow)) : 0;
  const BytesPerSecond rate = slowest(plan.uses, fabric).value_or(rings_->bandwidth) * fraction;
  const double local = pair ? 0 : pace->local_share / (n - 1);
  // What a larger message costs at first is hidden by its own bytes later on where nothing else shares the blocks.
  const Seconds bytes = plan.bytes / rate, grown = growth * hop_;
  const Seconds both = pair ? Seconds(std::hypot(bytes.in_s(), grown.in_s())) : bytes + grown;
  plan.latency = start_ + (pace->start_hops + pace->peer_hops * (n - 2)) * hop_ + local * bytes +
                 (both - bytes);
  for (FabricUse& use : plan.uses) use.weight /= fraction;
  return true;
}

std::optional<CollectivePlan> PacedNode::find_kernel(Bytes bytes) const {
  if (generation_.link != PaceLink::Nvlink) return std::nullopt;
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
  const KernelPace* pace = pace_->find_kernel(library_->id, found->algorithm);
  if (pace == nullptr) return std::nullopt;
  const double n = ranks;
  const double copies = found->algorithm == KernelAlgorithm::OneShot   ? n - 1
                        : found->algorithm == KernelAlgorithm::TwoShot ? 2 * (n - 1) / n
                                                                       : 1 + 1 / n;
  CollectivePlan plan;
  plan.algorithm = CollectiveAlgorithm::Direct;
  plan.channels = 1;
  const Seconds latency = pace->start + (pace->start_hops + pace->rank_hops * (n - 2)) * hop_;
  BytesPerSecond rate = rings_->bandwidth * pace->link_fraction;
  std::optional<BytesPerSecond> cap;
  if (pace->window > Bytes(0)) cap = pace->window / (3 * hop_);
  if (cap) rate = min(rate, *cap);
  set(plan, latency + bytes * copies / rate, bytes * copies, pace->link_fraction);
  plan.latency = latency;
  plan.rate_cap = cap;
  return plan;
}

double PacedNode::log_sd(Bytes bytes, bool is_kernel) const {
  const double measured = pace_->log_sd(generation_.link, bytes, is_kernel);
  return std::hypot(measured,
                    kBeyondMeasured * std::log(std::max(1.0, rings_->num_ranks / kMostMeasured)));
}

}  // namespace tracecast
