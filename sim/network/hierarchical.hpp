#pragma once
#include <array>
#include <span>

#include "sim/network/collective.hpp"

namespace tracecast {

/// Collectives that run at the same time and end together, as one transfer at the pace of the
/// slowest: bytes of the largest; weights of the others in proportion to theirs, those of shared
/// links added up; the longest latency.
[[nodiscard]] CollectivePlan plan_together(std::span<const CollectivePlan> plans);

/// An all-reduce in three stages, one after the other (Horovod's hierarchical all-reduce; Jia et
/// al., arXiv:1807.11205): every node reduces and scatters among its k ranks, rank i of all nodes
/// reduce their k-th part among them, every node gathers.
///   stage 1 and 3: (k - 1) / k of the buffer within nodes; stage 2: 2 (M - 1) / M of a k-th of it,
///   k at a time
/// `within` and `across`: the libraries. Nodes of different size take part with the least of them,
/// the other ranks sending to those first and receiving from them last. One node: stage 2 is empty.
[[nodiscard]] std::array<CollectivePlan, 3> plan_hierarchical(const Fabric& fabric,
                                                              std::span<const Rank> ranks,
                                                              Bytes bytes,
                                                              const CollectiveLibrary& within,
                                                              const CollectiveLibrary& across);

}  // namespace tracecast
