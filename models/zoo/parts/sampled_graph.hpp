#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tracecast::zoo_builders {

/// Edges of one kind between nodes of two types, as a graph stores them for training.
struct GraphRelation {
  std::string_view name;
  std::size_t from = 0, to = 0;  ///< types of sources and destinations
  double edges = 0;              ///< without self-loops
  std::size_t reverse =
      0;  ///< the relation that has the same edges the other way; itself where it has both
  double self_loops = 0;  ///< of each node, beside its other edges
};
/// A data set's graph: published counts, no edge by itself.
struct GraphData {
  struct NodeType {
    std::string_view name;
    double count = 0;
  };
  std::vector<NodeType> types;
  std::vector<GraphRelation> relations;
};

/// What one hop draws for the nodes that are there before it.
struct SampledHop {
  std::vector<std::int64_t> destinations;  ///< by type: nodes that draw
  std::vector<std::int64_t>
      sources;  ///< by type: they and what they drew, each once; the first are the destinations
  std::vector<std::int64_t> edges;  ///< by relation
};

/// In-neighbours that a node draws of one relation: min(degree, fan_out), expected. Prior: degrees
/// are spread geometrically about their mean m, P(degree >= k) = q^k, q = m / (1 + m); of a node
/// that was reached along one of its edges, in proportion to its degree, P(degree >= k) = q^(k - 1)
/// (1 + (k - 1) (1 - q)).
[[nodiscard]] double drawn_neighbours(double mean_degree, std::int64_t fan_out,
                                      bool reached_along_edge);

/// The subgraph of a step, from the seeds outwards, expected: every node that is there draws up to
/// `fan_out[hop]` in-neighbours of every relation, without replacement. Nodes are drawn in
/// proportion to their degree, so that of D draws among N nodes with geometrically spread degrees N
/// D / (N + D) are different ones (prior: neighbours of neighbours are no more likely the same).
[[nodiscard]] std::vector<SampledHop> sample_hops(const GraphData& data, std::size_t seed_type,
                                                  std::int64_t seeds,
                                                  std::span<const std::int64_t> fan_out);

}  // namespace tracecast::zoo_builders
