#include "models/graph.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"

using namespace tracecast;

TEST_SUITE_BEGIN("models/graph");

TEST_CASE("a convolution's multiply-adds are outputs times the filter of one group") {
  ConvAttributes conv{.n = 2, .c = 6, .h = 5, .w = 5, .k = 4, .r = 3, .s = 3, .p = 5, .q = 5};
  CHECK(conv.macs() == 2 * 4 * 5 * 5 * 6 * 3 * 3);
  conv.groups = 2;
  CHECK(conv.macs() == 2 * 4 * 5 * 5 * 3 * 3 * 3);
}

TEST_CASE("shapes print as people write them") {
  CHECK(to_string(Shape{64, 3, 224, 224}) == "64x3x224x224");
  CHECK(to_string(Shape{7}) == "7");
  CHECK(to_string(Shape{}) == "scalar");
  CHECK(element_count(Shape{}) == 1);
  CHECK(element_count(Shape{3, 0, 5}) == 0);
}

TEST_CASE("a graph refuses what would break its invariant") {
  NetworkGraph graph;
  const TensorId in = graph.add_tensor({.name = "in", .shape = {1}, .role = TensorRole::Input});
  const TensorId mid = graph.add_tensor({.name = "mid", .shape = {1}});
  const TensorId out = graph.add_tensor({.name = "out", .shape = {1}});
  SUBCASE("reading what nothing has written") {
    CHECK_THROWS_AS(graph.add_op({.name = "early", .inputs = {mid}, .outputs = {out}}),
                    InternalError);
  }
  SUBCASE("a second producer") {
    graph.add_op({.name = "first", .inputs = {in}, .outputs = {mid}});
    CHECK_THROWS_AS(graph.add_op({.name = "second", .inputs = {in}, .outputs = {mid}}),
                    InternalError);
  }
  SUBCASE("writing an input") {
    CHECK_THROWS_AS(graph.add_op({.name = "op", .inputs = {}, .outputs = {in}}), InternalError);
  }
  SUBCASE("a tensor of no graph") {
    CHECK_THROWS_AS(graph.add_op({.name = "op", .inputs = {TensorId{99}}, .outputs = {mid}}),
                    InternalError);
  }
  SUBCASE("a valid chain") {
    const OpId first = graph.add_op({.name = "first", .inputs = {in}, .outputs = {mid}});
    graph.add_op({.name = "second", .inputs = {mid}, .outputs = {out}});
    CHECK(graph.producer(mid) == first);
    CHECK_FALSE(graph.producer(in).has_value());
  }
}

TEST_CASE("parameters are the elements of weights, buffers apart, and never overflow") {
  NetworkGraph graph;
  graph.add_tensor({.name = "w", .shape = {4, 3}, .role = TensorRole::Weight});
  graph.add_tensor({.name = "running_mean", .shape = {4}, .role = TensorRole::Buffer});
  CHECK(graph.parameter_count() == 12);
  const std::int64_t huge = (std::int64_t{1} << 62) - 1;
  for (int i = 0; i < 4; ++i) {
    graph.add_tensor({.name = "huge", .shape = {huge}, .role = TensorRole::Weight});
  }
  CHECK(graph.parameter_count() == huge);
}

TEST_SUITE_END();
