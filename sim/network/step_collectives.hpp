#pragma once
#include <span>

#include "sim/network/collective.hpp"
#include "sim/network/ring_ways.hpp"

namespace tracecast {

/// Collectives that are no pipeline within one kernel. Private to sim/network; `bytes` as in
/// Communicator::plan.

/// Every rank sends 1/N of its buffer to every other. Up to 256 ranks all routes are counted;
/// beyond, those of a rank to the others of its node and, for all of other nodes, to the same slot
/// of the next.
[[nodiscard]] CollectivePlan all_pairs(const Fabric& fabric, std::span<const Rank> ranks,
                                       Bytes bytes);
/// Latency is that of the links.
[[nodiscard]] CollectivePlan one_message(const Fabric& fabric, Rank from, Rank to, Bytes bytes);

/// The edges of a ring through the ranks in their order, each through host memory.
struct HostEdges {
  double seconds_per_byte = 0;  ///< of the slowest
  Seconds latency{};            ///< of the farthest
};
[[nodiscard]] HostEdges find_host_edges(const Fabric& fabric, std::span<const Rank> ranks);

/// Blocking collectives through host memory: a chunk is copied to the host, sent, copied to the
/// GPU, one after the other:
///   1 / rate = 1 / to_host + 1 / network + 1 / from_host
/// Steps of an all-reduce: 2 (N-1) around a ring of more than 64 KiB per rank, else 2 log2 N by
/// halving and doubling.
[[nodiscard]] CollectivePlan plan_host_steps(const Fabric& fabric, std::span<const Rank> ranks,
                                             const RingWays& rings, const HostEdges& edges,
                                             Collective collective, Bytes bytes,
                                             const CollectiveLibrary& library);

/// Whole buffers along a binary tree (rank i's children are 2 i + 1 and 2 i + 2 in heap order),
/// level after level: a level takes as long as its slowest copy, copies that share a link share its
/// bandwidth. Reduce goes up, Broadcast down, AllReduce up and then down; other collectives as
/// messages.
[[nodiscard]] CollectivePlan plan_tree_copies(const Fabric& fabric, std::span<const Rank> ranks,
                                              Collective collective, Bytes bytes,
                                              const CollectiveLibrary& library);

}  // namespace tracecast
