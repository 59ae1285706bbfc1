#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

std::vector<Kernel> kernels_of(const NetworkGraph& graph, std::string_view name) {
  const LoweredStep step = lower(graph, find_framework("pytorch"), test::volta(), {});
  for (const LoweredOp& op : step.ops) {
    if (graph.op(op.op).name == name) return op.candidates.front().kernels;
  }
  return {};
}

/// 7 bags of 5 ids over a table of 1000 rows of 16 numbers.
NetworkGraph bags() {
  GraphBuilder b("bags", 7);
  const TensorId ids = b.input("ids", {7, 5}, true);
  b.graph().outputs = {b.embedding_bag("bag", ids, b.weight("table", {1000, 16}))};
  return std::move(b).take();
}

}  // namespace

TEST_SUITE_BEGIN("models/lowering/sparse");

TEST_CASE("a bag reads its rows and ids, not the table, and writes the sums") {
  const std::vector<Kernel> kernels = kernels_of(bags(), "bag");
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].read.in_bytes() == 35 * 16 * 4 + 35 * 8);
  CHECK(kernels[0].written.in_bytes() == 7 * 16 * 4);
  CHECK(kernels[0].flops.in_flop() == 35 * 16);  // one addition per number read
}

TEST_CASE("the gradient and the update of a bag's table touch the rows looked up alone") {
  const NetworkGraph step = make_training_graph(bags(), {.optimizer = OptimizerKind::Sgd});
  double update = 0, gradient = 0;
  for (const Kernel& kernel : kernels_of(step, "update table")) update += kernel.bytes().in_bytes();
  for (const Kernel& kernel : kernels_of(step, "bag bwd")) gradient += kernel.written.in_bytes();
  CHECK(gradient == 35 * 16 * 4);
  CHECK(update > 0);
  CHECK(update < 1000 * 16 * 4);
}

TEST_CASE(
    "loss scaling divides and checks the rows looked up alone, whatever the framework's loop") {
  const NetworkGraph step = make_training_graph(bags(), {.optimizer = OptimizerKind::Sgd});
  const double table = 1000 * 16 * 4, rows = 35 * 16 * 4;
  for (const char* framework : {"pytorch", "pytorch_apex", "tensorflow", "mxnet"}) {
    CAPTURE(framework);
    double scaling = 0;
    for (const LoweredOp& op :
         lower(step, find_framework(framework), test::volta(), {.precision = PrecisionMode::Amp})
             .ops) {
      if (!op.host_waits) continue;
      for (const Kernel& kernel : op.candidates.front().kernels)
        scaling += kernel.bytes().in_bytes();
    }
    CHECK(scaling >= rows);
    CHECK(scaling < table);
  }
}

TEST_CASE("routing is a known number of small kernels whose time is a bounded guess") {
  GraphBuilder b("route", 2);
  const TensorId x = b.input("probabilities", {2, 10, 4});
  b.graph().outputs = {b.route("route", x, 64).gate};
  const std::vector<Kernel> kernels = kernels_of(std::move(b).take(), "route");
  CHECK(kernels.size() == 6 + 4 * 4);  // six passes over the mask, four selections an expert
  for (const Kernel& kernel : kernels) {
    CHECK(kernel.is_bounded_guess);
    CHECK(kernel.name.size() <= 15);
    CHECK(kernel.bytes().in_bytes() > 0);
  }
}

TEST_CASE("rows are written in place: the rest of the tensor is not touched") {
  GraphBuilder b("rows", 1);
  const TensorId data = b.input("data", {100, 8}), ids = b.input("ids", {3}, true);
  const TensorId rows = b.input("rows", {3, 8});
  b.graph().outputs = {b.scatter_rows("put", b.slice("clone", data, {100, 8}), ids, rows)};
  const std::vector<Kernel> kernels = kernels_of(std::move(b).take(), "put");
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].read.in_bytes() == 3 * 8 * 4 + 3 * 8);
  CHECK(kernels[0].written.in_bytes() == 3 * 8 * 4);
}

namespace {

/// 50 edges from 20 nodes to 10, two heads of 8.
NetworkGraph edges() {
  GraphBuilder b("edges", 1);
  const TensorId drawn = b.sample("draw", b.store("store", {1000}, 8), 10, 50);
  const TensorId from = b.linear_layer("src", b.input("x", {20, 4}), 16, false);
  const TensorId to = b.linear_layer("dst", b.input("own", {10, 4}), 16, false);
  b.graph().outputs = {
      b.edge_attention("attention", from, to, b.weight("scores", {2, 16}), drawn, 2)};
  return std::move(b).take();
}

}  // namespace

TEST_CASE(
    "attention over edges is a kernel where the framework has one, else some twelve small ones") {
  const auto run = [](const NetworkGraph& graph, std::string_view framework,
                      std::string_view name) {
    const LoweredStep step =
        lower(graph, find_framework(framework), test::volta(), {.precision = PrecisionMode::Fp16});
    for (const LoweredOp& op : step.ops) {
      if (graph.op(op.op).name == name) return op.candidates.front().kernels;
    }
    return std::vector<Kernel>{};
  };
  const NetworkGraph graph = edges();
  const std::vector<Kernel> joined = run(graph, "pytorch_nvidia", "attention");
  REQUIRE(joined.size() == 1);
  // A row of 16 halves for every edge and every destination, an id an edge; the sums and two
  // weights an edge.
  CHECK(joined[0].read.in_bytes() == (50 + 10) * 16 * 2 + 50 * 8);
  CHECK(joined[0].written.in_bytes() == 10 * 16 * 2 + 50 * 2 * 2);
  const std::vector<Kernel> steps = run(graph, "pytorch", "attention");
  CHECK(steps.size() == 12);
  const NetworkGraph step = make_training_graph(graph, {});
  const std::vector<Kernel> back = run(step, "pytorch_nvidia", "attention bwd");
  REQUIRE(back.size() == 3);  // cleared, added in 32 bits, cast
  CHECK(back[0].written.in_bytes() == (20 + 10) * 16 * 4);
  CHECK(std::get<StreamWork>(back[1].work).additions == 50 * 16);
  CHECK(back[2].written.in_bytes() == (20 + 10) * 16 * 2);
  for (const std::string_view framework : {"pytorch", "pytorch_nvidia"}) {
    for (const std::string_view op : {"attention", "attention bwd", "draw"}) {
      for (const Kernel& kernel : run(step, framework, op)) {
        CAPTURE(kernel.name);
        CHECK(kernel.name.size() <= 15);
        CHECK(kernel.bytes().in_bytes() > 0);
      }
    }
  }
}

TEST_SUITE_END();
