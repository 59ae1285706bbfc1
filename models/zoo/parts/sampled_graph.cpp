#include "models/zoo/parts/sampled_graph.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tracecast::zoo_builders {
namespace {

/// Nodes of one type that were found in the same way.
struct Found {
  double count = 0;
  std::optional<std::size_t> along{};  ///< the relation; nothing: seeds
};

/// Nodes of one type so far.
struct Known {
  double draws = 0;  ///< seeds among them
  std::vector<Found> found;

  [[nodiscard]] double distinct(double all) const {
    return draws > 0 ? all * draws / (all + draws) : 0.0;
  }
};

std::vector<std::int64_t> counts(std::span<const Known> known, const GraphData& data) {
  std::vector<std::int64_t> result;
  for (std::size_t t = 0; t < known.size(); ++t) {
    result.push_back(std::llround(known[t].distinct(data.types[t].count)));
  }
  return result;
}

}  // namespace

double drawn_neighbours(double mean_degree, std::int64_t fan_out, bool reached_along_edge) {
  const double q = mean_degree / (1 + mean_degree);
  double drawn = 0, tail = reached_along_edge ? 1 : q;
  for (std::int64_t k = 1; k <= fan_out; ++k) {
    drawn += reached_along_edge ? tail * (1 + static_cast<double>(k - 1) * (1 - q)) : tail;
    tail *= q;
  }
  return drawn;
}

std::vector<SampledHop> sample_hops(const GraphData& data, std::size_t seed_type,
                                    std::int64_t seeds, std::span<const std::int64_t> fan_out) {
  std::vector<Known> known(data.types.size());
  // Seeds are different nodes.
  const double all = data.types[seed_type].count;
  const double wanted = std::min(static_cast<double>(seeds), 0.999 * all);
  known[seed_type] = {.draws = all * wanted / (all - wanted),
                      .found = {{static_cast<double>(seeds), std::nullopt}}};
  std::vector<SampledHop> hops;
  for (const std::int64_t most : fan_out) {
    SampledHop hop{.destinations = counts(known, data), .sources = {}, .edges = {}};
    std::vector<double> others;  // by relation: edges that are no self-loops
    for (const GraphRelation& relation : data.relations) {
      const double mean = relation.edges / data.types[relation.to].count;
      const double loops = std::min(relation.self_loops, static_cast<double>(most));
      double edges = 0, drawn = 0;
      for (const Found& nodes : known[relation.to].found) {
        const bool along =
            nodes.along && &data.relations[data.relations[*nodes.along].reverse] == &relation;
        // Self-loops are drawn like other edges: they keep their share of a node's.
        const double degree = drawn_neighbours(mean, most, along);
        const double taken = std::min(degree + loops, static_cast<double>(most));
        edges += nodes.count * taken;
        drawn += nodes.count * taken * mean / (mean + relation.self_loops);
      }
      hop.edges.push_back(
          std::min<std::int64_t>(std::llround(edges), most * hop.destinations[relation.to]));
      others.push_back(drawn);
    }
    std::vector<double> before, drawn(known.size());
    for (std::size_t t = 0; t < known.size(); ++t) {
      before.push_back(known[t].distinct(data.types[t].count));
    }
    for (std::size_t r = 0; r < others.size(); ++r) drawn[data.relations[r].from] += others[r];
    for (std::size_t t = 0; t < known.size(); ++t) known[t].draws += drawn[t];
    for (std::size_t r = 0; r < others.size(); ++r) {
      const std::size_t from = data.relations[r].from;
      if (!(others[r] > 0)) continue;
      const double fresh = known[from].distinct(data.types[from].count) - before[from];
      known[from].found.push_back({fresh * others[r] / drawn[from], r});
    }
    hop.sources = counts(known, data);
    hops.push_back(std::move(hop));
  }
  return hops;
}

}  // namespace tracecast::zoo_builders
