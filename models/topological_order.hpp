#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tracecast {

/// `first` must come before `second`.
using Precedence = std::pair<std::uint32_t, std::uint32_t>;

struct TopologicalOrder {
  std::vector<std::uint32_t> order;  ///< every node once; empty when there is a cycle
  std::vector<std::uint32_t>
      cycle;  ///< the nodes of one cycle, each before the next; empty when there is none
};

/// An order of 0 ... num_nodes-1 that respects `edges`: among the nodes that are ready the lowest
/// number goes first, so a list that is in order already keeps its order and the answer does not
/// depend on the order of the edges. Edges may repeat; an edge from a node to itself is a cycle.
/// Every end must be below num_nodes. O((nodes + edges) log nodes), no recursion.
[[nodiscard]] TopologicalOrder topological_order(std::size_t num_nodes,
                                                 std::span<const Precedence> edges);

}  // namespace tracecast
