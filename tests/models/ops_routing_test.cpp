#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/kept_activations.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"

using namespace tracecast;

namespace {

/// An MoE of four linear experts over 2 sequences of 10 tokens, 8 wide.
NetworkGraph moe(std::int64_t capacity) {
  GraphBuilder b("moe", 2);
  const TensorId x = b.linear_layer("in", b.input("x", {2, 10, 8}), 8, false);
  const auto routing =
      b.route("route", b.softmax("probabilities", b.linear_layer("router", x, 4, false)), capacity);
  const TensorId tokens = b.reshape("tokens", x, {20, 8});
  TensorId y = b.slice("clone", tokens, {20, 8});
  for (std::size_t i = 0; i < routing.tokens.size(); ++i) {
    const std::string name = "expert" + std::to_string(i);
    const TensorId picked = b.gather(name + ".pick", tokens, routing.tokens[i], 0);
    y = b.scatter_rows(name + ".put", y, routing.tokens[i], b.linear_layer(name, picked, 8, false));
  }
  b.graph().outputs = {b.mul("gated", b.reshape("sequences", y, {2, 10, 8}), routing.gate)};
  return std::move(b).take();
}

const Op* find(const NetworkGraph& graph, std::string_view name) {
  for (const Op& op : graph.ops()) {
    if (op.name == name) return &op;
  }
  return nullptr;
}

}  // namespace

TEST_SUITE_BEGIN("models/ops_routing");

TEST_CASE("experts get an even share of each sequence, or their capacity where that is less") {
  const auto tokens_of_expert = [](std::int64_t capacity) {
    const NetworkGraph graph = moe(capacity);
    return graph.tensor(find(graph, "expert0.pick")->outputs.front()).shape[0];
  };
  CHECK(tokens_of_expert(100) == 2 * 3);  // a quarter of 10 tokens, rounded up, of two sequences
  CHECK(tokens_of_expert(2) == 2 * 2);
  GraphBuilder b("two of four", 2);
  const auto routing = b.route("route", b.input("scores", {2, 10, 4}), 100, 2);
  CHECK(b.shape(routing.tokens.front()) == Shape{2 * 5});  // 20 places over four experts
}

TEST_CASE("an MoE trains: every expert and the router get a gradient") {
  const NetworkGraph step = make_training_graph(moe(2), {});
  std::size_t updates = 0;
  for (const Op& op : step.ops()) updates += op.kind == OpKind::Optimizer;
  CHECK(updates == 1 + 1 + 4);  // in, router, experts
  // The gradient of rows that were written: as many as the expert had tokens.
  const Op* slice = find(step, "expert1.put bwd");
  REQUIRE(slice != nullptr);
  const Op* router = find(step, "route bwd");
  REQUIRE(router != nullptr);
  CHECK(step.tensor(router->outputs.front()).shape == Shape{2, 10, 4});
}

TEST_CASE("a bag sums rows; its table's gradient has a row per id, and so has the update") {
  GraphBuilder b("bags", 3);
  const TensorId ids = b.input("ids", {3, 5}, true);
  const TensorId table = b.weight("table", {1000, 16});
  const TensorId sums = b.embedding_bag("bag", ids, table);
  CHECK(b.shape(sums) == Shape{3, 16});
  b.graph().outputs = {sums};
  const NetworkGraph step =
      make_training_graph(std::move(b).take(), {.optimizer = OptimizerKind::Sgd});
  const Op* update = find(step, "update table");
  REQUIRE(update != nullptr);
  CHECK(step.tensor(update->inputs[1]).shape == Shape{15, 16});
}

TEST_CASE("impossible bags, routes and rows are refused") {
  GraphBuilder b("net", 2);
  const TensorId ids = b.input("ids", {2, 5}, true), flat = b.input("flat", {5}, true);
  const TensorId table = b.weight("table", {10, 4}), rows = b.input("rows", {5, 3});
  const TensorId probabilities = b.input("p", {2, 5, 3});
  CHECK_THROWS_AS((void)b.embedding_bag("bag", flat, table), InputError);
  CHECK_THROWS_AS((void)b.embedding_bag("bag", ids, flat), InputError);
  CHECK_THROWS_AS((void)b.route("route", rows, 4), InputError);
  CHECK_THROWS_AS((void)b.route("route", probabilities, 0), InputError);
  CHECK_THROWS_AS((void)b.scatter_rows("put", table, flat, rows), InputError);
  CHECK_THROWS_AS((void)b.scatter_rows("put", table, flat, table), InputError);
}

TEST_CASE(
    "attention over edges has a gradient for both ends and its scores, none for what is stored") {
  GraphBuilder b("edges", 4);
  const TensorId features = b.store("features", {1000, 8}, 1);
  const TensorId rows = b.stored_rows("rows", features, b.input("ids", {10}, true));
  CHECK(b.graph().tensor(rows).is_integer);
  CHECK(b.graph().tensor(rows).integer_bytes == 1);
  const TensorId x = b.cast("x", rows, false);
  const TensorId edges = b.sample("draw", b.store("edges", {5000}, 8), 4, 12);
  const TensorId from = b.linear_layer("src", x, 6, false);
  const TensorId to = b.linear_layer("dst", b.slice_view("own", x, {4, 8}), 6, false);
  const TensorId y = b.edge_attention("attention", from, to, b.weight("scores", {2, 6}), edges, 2);
  CHECK(b.shape(y) == Shape{4, 6});
  CHECK_THROWS_AS((void)b.edge_attention("odd", from, to, b.weight("more", {2, 6}), edges, 4),
                  InputError);
  b.graph().outputs = {y};
  const NetworkGraph graph = std::move(b).take();
  CHECK(bytes_from_stores(graph) == Bytes(10 * 8 + 12 * 8));
  const NetworkGraph step = make_training_graph(graph, {});
  const Op* gradient = find(step, "attention bwd");
  REQUIRE(gradient != nullptr);
  CHECK(gradient->outputs.size() == 3);
  std::size_t updates = 0;
  for (const Op& op : step.ops()) updates += op.kind == OpKind::Optimizer;
  CHECK(updates == 3);  // src, dst, scores
  NetworkGraph placed = graph;
  placed.place_store(features, 125);
  CHECK(placed.tensor(features).shape == Shape{125, 8});
  CHECK(bytes_from_stores(placed) == Bytes(12 * 8));
}

TEST_SUITE_END();
