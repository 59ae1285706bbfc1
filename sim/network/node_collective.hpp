#pragma once
#include <optional>

#include "hwspecs/collective_efficiency.hpp"
#include "sim/network/collective.hpp"
#include "sim/network/ring_ways.hpp"

namespace tracecast {

/// Collectives within a node at a fitted pace (hwspecs/pace). Private to sim/network.
///
/// N ranks, buffer S, P = 2 ways around for an all-reduce, else 1; u: a hop, start: of a kernel,
/// both so many cycles of the boost clock; B: what the links of a ring carry, times the share of it
/// that the protocol reaches; c = S / N: the chunk that goes around, in k slices.
///   ring      start + P (N - 1) max(c / B + k o u, c / (k B) + h u) + local c / B + spread
///             a slice goes on while the next one comes: a step waits for its links, or for a hop
///             and one slice
///   switch    (S / (C g) + fill) (r u + C g (1 + 1 / H) / B), C = channels x H chunks g at a time,
///   H: GPUs that reduce, at most 32;
///             g = 128 KiB, halved to 64, 32, 16 below 64, 8, 2 rounds, as NCCL halves it; r grows
///             with H
///   messages  start + u (p (N - 2) + w c / (c + c0)) + (N - 1 + local) c / B; of a single pair the
///   square root of the
///             squares of u w c / (c + c0) and c / B in place of their sum
///             over PCIe in rounds, each as slow as the slowest edge of the ring
///   kernels   start + u (a + b (N - 2)) + bytes / min(B, window / 3 u); one-shot S (N - 1),
///   two-shot 2 S (N - 1) / N,
///             multicast S (1 + 1 / N)
/// Each becomes a plan whose bytes are what an edge carries and whose latency is the rest of the
/// time on idle links.
class NodeCollective {
 public:
  /// Nothing where the pace does not say: several nodes, an older GPU, a library that has none.
  static std::optional<NodeCollective> find(const RingWays& rings, const CollectiveLibrary& library,
                                            const CollectiveEfficiency& efficiency);

  /// `plan`: algorithm and protocol are chosen; sets bytes, uses, latency and cap. False: the pace
  /// does not say.
  bool set_ring(CollectivePlan& plan, Collective collective, Bytes bytes) const;
  /// `channels`: of the reduction.
  void set_switch(CollectivePlan& plan, Bytes bytes, int channels) const;
  /// `plan`: has the uses and the bytes of its messages.
  bool set_messages(CollectivePlan& plan, Collective collective, const Fabric& fabric) const;
  /// The engine's kernel for so many bytes; nothing where it leaves them to the other library.
  [[nodiscard]] std::optional<CollectivePlan> find_kernel(Bytes bytes) const;

  /// Of the logarithm of measured over predicted.
  [[nodiscard]] double log_sd(Bytes bytes, bool is_kernel) const;

 private:
  NodeCollective(const RingWays& rings, const CollectiveLibrary& library,
                 const CollectiveEfficiency& efficiency, const GenerationFactors& generation)
      : rings_(&rings),
        library_(&library),
        efficiency_(&efficiency),
        generation_(generation),
        hop_(generation.hop_kilocycles * 1e3 / rings.clock.in_si()),
        start_(generation.start_kilocycles * 1e3 / rings.clock.in_si()) {}
  void set(CollectivePlan& plan, Seconds total, Bytes edge_bytes, double link_fraction) const;

  const RingWays* rings_;
  const CollectiveLibrary* library_;
  const CollectiveEfficiency* efficiency_;
  GenerationFactors generation_;
  Seconds hop_, start_;
};

}  // namespace tracecast
