#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "models/zoo/parts/family.hpp"
#include "models/zoo/parts/sampled_graph.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kRgat =
    "Busbridge et al., arXiv 1904.05811; MLPerf training v4.0, graph_neural_network (3 layers of "
    "GATConv per relation)";

enum Type : std::size_t { Paper, Author, Institute, Topic, Journal, Conference };

/// IGBH-Full. Nodes: NVIDIA's preprocessing.py of MLPerf v4.0 (NODE_COUNTS). Edges: DGL's script
/// that makes GraphBolt's IGBH (num_edges), whose sum is the 5,812,005,639 that MLPerf states. For
/// training every relation has its reverse, citations both directions in one relation and two
/// self-loops a paper (GraphLearn-for-PyTorch, examples/igbh/dataset.py). Prior: of edges to
/// journals and conferences no count is stated; one of each a paper is the most there can be.
const GraphData& igbh_full() {
  static const GraphData data = [] {
    GraphData d{.types = {{"paper", 269'346'174},
                          {"author", 277'220'883},
                          {"institute", 26'918},
                          {"fos", 712'960},
                          {"journal", 49'052},
                          {"conference", 4'547}},
                .relations = {{.name = "cites",
                               .from = Paper,
                               .to = Paper,
                               .edges = 2 * 3'996'442'004.0,
                               .reverse = 0,
                               .self_loops = 2}}};
    const auto both_ways = [&](std::string_view name, std::string_view reverse, std::size_t from,
                               std::size_t to, double edges) {
      const std::size_t first = d.relations.size();
      d.relations.push_back({name, from, to, edges, first + 1});
      d.relations.push_back({reverse, to, from, edges, first});
    };
    both_ways("written_by", "rev_written_by", Paper, Author, 716'761'549);
    both_ways("affiliated_to", "rev_affiliated_to", Author, Institute, 48'521'486);
    both_ways("topic", "rev_topic", Paper, Topic, 1'050'280'600);
    both_ways("published", "rev_published", Paper, Journal, d.types[Paper].count);
    both_ways("venue", "rev_venue", Paper, Conference, d.types[Paper].count);
    return d;
  }();
  return data;
}

struct RgatLayout {
  std::int64_t features = 1024, hidden = 512, heads = 4;
  int feature_bytes = 2;
};

/// A type's values, nothing where no node of it was drawn.
using Values = std::vector<std::optional<TensorId>>;

struct Rgat {
  GraphBuilder& b;
  const GraphData& data;
  const RgatLayout& layout;

  /// By relation: the ids that a hop draws. Relations without an edge run nothing, there and in the
  /// layers.
  [[nodiscard]] std::vector<std::optional<TensorId>> sample(const SampledHop& hop,
                                                            const std::vector<TensorId>& stores,
                                                            const std::string& name) const {
    std::vector<std::optional<TensorId>> edges;
    for (std::size_t r = 0; r < data.relations.size(); ++r) {
      const GraphRelation& relation = data.relations[r];
      const std::int64_t nodes = hop.destinations[relation.to], count = hop.edges[r];
      edges.emplace_back();
      if (nodes < 1 || count < 1 || hop.sources[relation.from] < 1) continue;
      edges.back() = b.sample(name + "." + std::string(relation.name), stores[r], nodes, count);
    }
    return edges;
  }

  [[nodiscard]] Values features(const SampledHop& hop) const {
    Values x;
    for (std::size_t t = 0; t < data.types.size(); ++t) {
      const std::string name = "features." + std::string(data.types[t].name);
      const TensorId all =
          b.store(name, {static_cast<std::int64_t>(data.types[t].count), layout.features},
                  layout.feature_bytes);
      x.emplace_back();
      if (hop.sources[t] < 1) continue;
      const TensorId ids = b.input(name + ".ids", {hop.sources[t]}, true);
      const TensorId rows = b.stored_rows(name + ".rows", all, ids);
      x.back() = b.cast(name + ".cast", rows, false);
    }
    return x;
  }

  /// GATConv of every relation; what several have for one type is added.
  [[nodiscard]] Values layer(const std::string& name, const Values& x, const SampledHop& hop,
                             const std::vector<std::optional<TensorId>>& edges) const {
    Values own;  // the destinations stand first among the sources
    for (std::size_t t = 0; t < data.types.size(); ++t) {
      own.emplace_back();
      if (!x[t] || hop.destinations[t] < 1) continue;
      own[t] = b.slice_view(name + "." + std::string(data.types[t].name), *x[t],
                            {hop.destinations[t], b.shape(*x[t])[1]});
    }
    std::vector<std::vector<TensorId>> results(data.types.size());
    for (std::size_t r = 0; r < data.relations.size(); ++r) {
      const GraphRelation& relation = data.relations[r];
      if (!edges[r] || !x[relation.from] || !own[relation.to]) continue;
      const std::string conv = name + "." + std::string(relation.name);
      const TensorId source = *x[relation.from], destination = *own[relation.to];
      const TensorId weight = b.weight(conv + ".fc.weight", {layout.hidden, b.shape(source)[1]});
      const TensorId scores = b.weight(conv + ".attn", {2, layout.hidden});
      const TensorId bias = b.weight(conv + ".bias", {layout.hidden});
      const TensorId from = b.linear(conv + ".src", source, weight, {});
      const TensorId to = b.linear(conv + ".dst", destination, weight, {});
      const TensorId y =
          b.edge_attention(conv + ".attention", from, to, scores, *edges[r], layout.heads);
      results[relation.to].push_back(b.add(conv + ".bias_add", y, bias));
    }
    Values y;
    for (std::size_t t = 0; t < data.types.size(); ++t) {
      y.emplace_back();
      if (results[t].size() == 1) y.back() = results[t].front();
      if (results[t].size() > 1) {
        y.back() =
            b.binary(name + "." + std::string(data.types[t].name) + ".sum", "add", results[t]);
      }
    }
    return y;
  }
};

// graphlearn-for-pytorch, examples/igbh/rgnn.py, and NVIDIA's dgl/model/dgl_model.py: one matrix of
// a relation for both ends. Relations whose destinations no later layer reads have weights there,
// which no gradient reaches: left out.
NetworkGraph rgat(const BuildOptions& options, const RgatLayout& layout) {
  GraphBuilder b("rgat", options.batch);
  const GraphData& data = igbh_full();
  const Rgat parts{b, data, layout};
  const std::vector<SampledHop> hops = sample_hops(data, Paper, options.batch, options.fan_out);
  std::vector<TensorId> stores;
  for (const GraphRelation& relation : data.relations) {
    const double loops = relation.self_loops * data.types[relation.to].count;
    stores.push_back(b.store(std::string(relation.name) + ".edges",
                             {static_cast<std::int64_t>(relation.edges + loops)}, 8));
  }
  std::vector<std::vector<std::optional<TensorId>>> edges;
  for (std::size_t hop = 0; hop < hops.size(); ++hop) {
    edges.push_back(parts.sample(hops[hop], stores, "hop" + std::to_string(hop + 1)));
  }
  Values x = parts.features(hops.back());
  for (std::size_t l = 0; l < hops.size(); ++l) {
    const std::size_t hop = hops.size() - 1 - l;
    const std::string name = "layer" + std::to_string(l + 1);
    x = parts.layer(name, x, hops[hop], edges[hop]);
    if (hop == 0) break;
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (!x[t]) continue;
      const std::string node = name + "." + std::string(data.types[t].name);
      x[t] = b.activation(node + ".leaky_relu", *x[t], "leakyrelu");
      if (options.training) x[t] = b.dropout(node + ".dropout", *x[t]);
    }
  }
  b.graph().outputs = {b.linear_layer("linear", *x[Paper], *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> rgat_networks() {
  return {{.name = "rgat",
           .aliases = {"rgat_igbh"},
           .title = "R-GAT, MLPerf's, IGBH-Full, features of 16 bits",
           .source = kRgat,
           .classes = 2983,
           .fan_out = {15, 10, 5},
           .build = build<rgat, RgatLayout{}>},
          {.name = "rgat_fp8_features",
           .title = "R-GAT as NVIDIA trains it: features of 8 bits",
           .source = kRgat,
           .classes = 2983,
           .fan_out = {15, 10, 5},
           .build = build<rgat, RgatLayout{.feature_bytes = 1}>}};
}

}  // namespace tracecast::zoo_builders
