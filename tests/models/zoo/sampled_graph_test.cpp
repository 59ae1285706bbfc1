#include "models/zoo/parts/sampled_graph.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"

using namespace tracecast;
using namespace tracecast::zoo_builders;

namespace {

/// A million users who follow eight others each on average, and like three of a thousand things.
GraphData people() {
  return {.types = {{"user", 1e6}, {"thing", 1e3}},
          .relations = {{.name = "follows", .from = 0, .to = 0, .edges = 8e6, .reverse = 0},
                        {.name = "likes", .from = 0, .to = 1, .edges = 3e6, .reverse = 2},
                        {.name = "liked_by", .from = 1, .to = 0, .edges = 3e6, .reverse = 1}}};
}

}  // namespace

TEST_SUITE_BEGIN("models/zoo/sampled_graph");

TEST_CASE(
    "what a node draws lies below its mean degree and the fan-out, and nears the lesser one") {
  struct Row {
    const char* what;
    double mean;
    std::int64_t fan_out;
    bool along;
    double drawn;
  };
  const Row rows[] = {
      {"mean 1, one drawn: 1/2 have a neighbour", 1, 1, false, 0.5},
      {"mean 1, two drawn: 1/2 + 1/4", 1, 2, false, 0.75},
      {"the same, reached along an edge: one is sure, 1/2 (1 + 1/2) have a second", 1, 2, true,
       1.75},
      {"mean 3, one drawn, reached along an edge", 3, 1, true, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(drawn_neighbours(row.mean, row.fan_out, row.along) == doctest::Approx(row.drawn));
  }
  CHECK(drawn_neighbours(3, 1000, false) == doctest::Approx(3));
  CHECK(drawn_neighbours(3, 1000, true) == doctest::Approx(1 + 2 * 3));  // by degree: 1 + 2 m
  CHECK(drawn_neighbours(1e6, 15, false) == doctest::Approx(15).epsilon(1e-4));
}

TEST_CASE("hops grow outwards, no node draws more than the fan-out and none stands there twice") {
  const GraphData data = people();
  const std::vector<std::int64_t> fan_out{5, 4};
  const std::vector<SampledHop> hops = sample_hops(data, 0, 100, fan_out);
  REQUIRE(hops.size() == 2);
  CHECK(hops[0].destinations == std::vector<std::int64_t>{100, 0});
  // 100 seeds: follows 8 (1 - (8/9)^5) = 3.56 each, liked_by 3 (1 - (3/4)^5) = 2.29 each.
  CHECK(hops[0].edges == std::vector<std::int64_t>{356, 0, 229});
  CHECK(hops[0].sources[0] == doctest::Approx(456).epsilon(0.01));
  CHECK(hops[0].sources[1] == doctest::Approx(1000.0 * 229 / 1229).epsilon(0.01));
  for (std::size_t h = 0; h < hops.size(); ++h) {
    for (std::size_t r = 0; r < data.relations.size(); ++r) {
      CHECK(hops[h].edges[r] <= fan_out[h] * hops[h].destinations[data.relations[r].to]);
    }
    for (std::size_t t = 0; t < data.types.size(); ++t) {
      CHECK(hops[h].sources[t] >= hops[h].destinations[t]);
      CHECK(static_cast<double>(hops[h].sources[t]) <= data.types[t].count);
    }
  }
  CHECK(hops[1].destinations == hops[0].sources);
}

TEST_CASE(
    "a step of R-GAT trains the relations that the sample reaches, on nodes that the fan-out "
    "decides") {
  // Weights of a relation: one matrix, two vectors of scores, a bias. All eleven relations in the
  // first layer; no affiliation in the second, whose institutes nothing reads; into papers alone,
  // five, in the third; the classifier.
  const std::int64_t parameters =
      11 * (1024 * 512 + 3 * 512) + (10 + 5) * (512 * 512 + 3 * 512) + 512 * 2983 + 2983;
  const NetworkGraph graph = build_network("rgat", {.batch = 64, .training = true});
  CHECK(graph.parameter_count() == parameters);
  CHECK(graph.tensor(graph.outputs.front()).shape == Shape{64, 2983});
  CHECK(build_network("rgat", {.batch = 64, .fan_out = {5, 5, 5}}).forward_macs() <
        graph.forward_macs());
  CHECK_THROWS_AS((void)build_network("rgat", {.fan_out = {5, 5}}), InputError);
  CHECK_THROWS_AS((void)build_network("resnet50", {.fan_out = {5, 5, 5}}), InputError);
  // Features of 8 bits are half of those of 16; edges are alike.
  const Bytes wide = bytes_from_stores(graph);
  const Bytes low_precision = bytes_from_stores(build_network("rgat_fp8_features", {.batch = 64}));
  CHECK(low_precision < wide);
  CHECK(wide < low_precision * 2.0);
  const NetworkGraph step = make_training_graph(graph, {});
  CHECK(bytes_from_stores(step) == wide);
}

TEST_SUITE_END();
