#include "models/topological_order.hpp"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/range/iterator_range.hpp>
#include <functional>
#include <queue>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

using Graph =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, boost::no_property,
                                       boost::no_property, std::uint32_t, std::uint32_t>;

/// One cycle among the nodes that could not be ordered. Each of them has such a predecessor, so
/// walking backwards must come round; the walk is turned about at the end.
std::vector<std::uint32_t> find_cycle(const Graph& graph,
                                      const std::vector<std::size_t>& waiting_for) {
  constexpr std::uint32_t kNone = 0xffffffff;
  std::vector<std::uint32_t> predecessor(num_vertices(graph), kNone);
  for (const auto edge : boost::make_iterator_range(edges(graph))) {
    const std::uint32_t from = source(edge, graph), to = target(edge, graph);
    if (waiting_for[from] > 0 && waiting_for[to] > 0) {
      predecessor[to] = std::min(predecessor[to], from);
    }
  }
  const auto stuck = std::find_if(waiting_for.begin(), waiting_for.end(),
                                  [](std::size_t count) { return count > 0; });
  auto node = static_cast<std::uint32_t>(stuck - waiting_for.begin());
  std::vector<std::uint32_t> walk;
  std::vector<bool> seen(predecessor.size(), false);
  for (; !seen[node]; node = predecessor[node]) {
    seen[node] = true;
    walk.push_back(node);
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), node));
  std::reverse(walk.begin(), walk.end());
  return walk;
}

}  // namespace

TopologicalOrder topological_order(std::size_t num_nodes, std::span<const Precedence> edges) {
  for (const auto& [from, to] : edges) {
    TRACECAST_CHECK(from < num_nodes && to < num_nodes, "an edge joins existing nodes");
  }
  const Graph graph(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
                    static_cast<std::uint32_t>(num_nodes));
  std::vector<std::size_t> waiting_for(num_nodes, 0);
  for (const auto& [from, to] : edges) ++waiting_for[to];

  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (std::uint32_t node = 0; node < num_nodes; ++node) {
    if (waiting_for[node] == 0) ready.push(node);
  }
  TopologicalOrder result;
  result.order.reserve(num_nodes);
  while (!ready.empty()) {
    const std::uint32_t node = ready.top();
    ready.pop();
    result.order.push_back(node);
    for (const std::uint32_t next : boost::make_iterator_range(adjacent_vertices(node, graph))) {
      if (--waiting_for[next] == 0) ready.push(next);
    }
  }
  if (result.order.size() != num_nodes) {
    result.order.clear();
    result.cycle = find_cycle(graph, waiting_for);
  }
  return result;
}

}  // namespace tracecast
