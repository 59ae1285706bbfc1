#include <algorithm>
#include <string>
#include <utility>

#include "models/ops.hpp"
#include "models/shape_checks.hpp"
#include "sim/base/error.hpp"

namespace tracecast {

using namespace shape_checks;

TensorId GraphBuilder::embedding_bag(std::string name, TensorId ids, TensorId table) {
  if (shape(table).size() != 2 || shape(ids).size() != 2) {
    throw InputError(
        name, "ids of shape " + to_string(shape(ids)) + ", a table of " + to_string(shape(table)),
        "batch x bag and rows x width");
  }
  Shape out = {shape(ids)[0], shape(table)[1]};
  return append({.name = std::move(name), .kind = OpKind::EmbeddingBag, .inputs = {ids, table}},
                std::move(out));
}

GraphBuilder::Routing GraphBuilder::route(std::string name, TensorId probabilities,
                                          std::int64_t capacity, std::int64_t per_token) {
  const Shape in = shape(probabilities);
  if (in.size() != 3 || in[2] < 1) {
    throw InputError(name, "probabilities of shape " + to_string(in), "batch x tokens x experts");
  }
  require_range(name, "capacity", capacity, 1, kMostExtent);
  require_range(name, "experts per token", per_token, 1, in[2]);
  const std::int64_t share = (in[1] * per_token + in[2] - 1) / in[2];
  Op op{.name = name, .kind = OpKind::Route, .inputs = {probabilities}};
  Routing routing{.gate = tensor({.name = name, .shape = {in[0], in[1], 1}}), .tokens = {}};
  op.outputs.push_back(routing.gate);
  for (std::int64_t expert = 0; expert < in[2]; ++expert) {
    routing.tokens.push_back(tensor({.name = name + ":" + std::to_string(expert),
                                     .shape = {in[0] * std::min(share, capacity)},
                                     .is_integer = true}));
    op.outputs.push_back(routing.tokens.back());
  }
  graph_.add_op(std::move(op));
  return routing;
}

void GraphBuilder::routine(std::string name, std::span<const TensorId> inputs,
                           const RoutineAttributes& attributes) {
  require_range(name, "ops", attributes.ops, 1, kMostExtent);
  append({.name = std::move(name),
          .kind = OpKind::Routine,
          .attributes = attributes,
          .inputs = {inputs.begin(), inputs.end()}},
         {1});
}

TensorId GraphBuilder::store(std::string name, Shape shape, int bytes) {
  return tensor({.name = std::move(name),
                 .shape = std::move(shape),
                 .role = TensorRole::Store,
                 .is_integer = true,
                 .integer_bytes = bytes});
}

TensorId GraphBuilder::stored_rows(std::string name, TensorId store, TensorId ids) {
  const int bytes = graph_.tensor(store).integer_bytes;
  const TensorId rows = gather(std::move(name), store, ids, 0);
  graph_.set_integer(rows, bytes);
  return rows;
}

TensorId GraphBuilder::sample(std::string name, TensorId edges, std::int64_t nodes,
                              std::int64_t count) {
  require_range(name, "nodes", nodes, 1, kMostExtent);
  require_range(name, "edges", count, 1, kMostExtent);
  const int bytes = graph_.tensor(edges).integer_bytes;
  const TensorId ids = append({.name = std::move(name),
                               .kind = OpKind::Sample,
                               .attributes = EdgeAttributes{.destinations = nodes, .edges = count},
                               .inputs = {edges}},
                              {count});
  graph_.set_integer(ids, bytes);
  return ids;
}

TensorId GraphBuilder::edge_attention(std::string name, TensorId sources, TensorId destinations,
                                      TensorId scores, TensorId edges, std::int64_t heads) {
  const Shape &from = shape(sources), &to = shape(destinations), &vectors = shape(scores);
  require_range(name, "heads", heads, 1, kMostExtent);
  const bool fits = from.size() == 2 && to.size() == 2 && vectors.size() == 2 && to[1] == from[1] &&
                    vectors[0] == 2 && vectors[1] == from[1] && from[1] % heads == 0 &&
                    shape(edges).size() == 1;
  if (!fits) {
    throw InputError(name,
                     to_string(from) + " to " + to_string(to) + ", scores " + to_string(vectors),
                     "nodes of one width, a multiple of the heads, and two vectors of it");
  }
  const EdgeAttributes attributes{.sources = from[0],
                                  .destinations = to[0],
                                  .edges = shape(edges)[0],
                                  .heads = heads,
                                  .width = from[1] / heads};
  Shape result = to;  // a new tensor may move the others
  const TensorId weights = tensor({.name = name + ".weights", .shape = {attributes.edges, heads}});
  return append({.name = std::move(name),
                 .kind = OpKind::EdgeAttention,
                 .attributes = attributes,
                 .inputs = {sources, destinations, scores, edges},
                 .outputs = {weights}},
                std::move(result));
}

TensorId GraphBuilder::scatter_rows(std::string name, TensorId data, TensorId ids, TensorId rows) {
  const Shape& whole = shape(data);
  const Shape& part = shape(rows);
  const bool fits = whole.size() == 2 && part.size() == 2 && part[1] == whole[1] &&
                    part[0] <= whole[0] && element_count(shape(ids)) == part[0];
  if (!fits) {
    throw InputError(name,
                     to_string(part) + " by " + to_string(shape(ids)) + " into " + to_string(whole),
                     "one id a row, rows of the same width");
  }
  return append({.name = std::move(name),
                 .kind = OpKind::Scatter,
                 .attributes = ElementwiseAttributes{.name = "scatter", .in_place = true},
                 .inputs = {data, ids, rows}},
                whole);
}

}  // namespace tracecast
