#include "models/lowering/pair_fusion.hpp"

#include <doctest/doctest.h>

#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;

namespace {

/// A bottom of 8 numbers and three rows of tables meet, in batches of 4; their six pairs stand
/// behind the bottom.
NetworkGraph pairs(bool is_read_elsewhere = false) {
  GraphBuilder b("pairs", 4);
  const TensorId dense = b.linear_layer("bottom", b.input("dense", {4, 16}), 8, false);
  const TensorId ids = b.input("ids", {4, 3}, true);
  const TensorId rows = b.embedding_layer("rows", ids, 100, 8);
  const TensorId parts[] = {dense, b.reshape("rows.view", rows, {4, 24})};
  const TensorId x = b.reshape("vectors", b.concat("features", parts, 1), {4, 4, 8});
  const TensorId gemms = b.reshape("gemms.view", b.matmul("gemms", x, x, false, true), {4, 16});
  const TensorId lower =
      b.tensor({.name = "lower", .shape = {6}, .role = TensorRole::Buffer, .is_integer = true});
  const TensorId picked = b.gather("picked", gemms, lower, 1);
  const TensorId both[] = {dense,
                           is_read_elsewhere ? b.activation("relu", picked, "relu") : picked};
  b.graph().outputs = {b.linear_layer("top", b.concat("joined", both, 1), 1, false)};
  return std::move(b).take();
}

std::vector<std::pair<std::string, Kernel>> names_and_kernels(const NetworkGraph& graph,
                                                              std::string_view framework) {
  std::vector<std::pair<std::string, Kernel>> all;
  const LoweredStep step =
      lower(graph, find_framework(framework), test::volta(), {.precision = PrecisionMode::Fp16});
  for (const LoweredOp& op : step.ops) {
    for (const Kernel& kernel : op.candidates.front().kernels) {
      all.emplace_back(graph.op(op.op).name, kernel);
    }
  }
  return all;
}

std::vector<Kernel> pair_kernels(const NetworkGraph& graph, std::string_view framework) {
  std::vector<Kernel> found;
  for (const auto& [name, kernel] : names_and_kernels(graph, framework)) {
    if (kernel.name == "pair_gemms") found.push_back(kernel);
  }
  return found;
}

}  // namespace

TEST_SUITE_BEGIN("models/lowering/pair_fusion");

TEST_CASE(
    "pairs of vectors are one kernel each way, which reads and writes what goes in and out once") {
  const NetworkGraph step = make_training_graph(pairs(), {.optimizer = OptimizerKind::Sgd});
  const std::vector<Kernel> kernels = pair_kernels(step, "pytorch_nvidia");
  REQUIRE(kernels.size() == 2);
  const double vectors = 4 * 4 * 8, joined = 4 * (8 + 6);  // numbers of 2 bytes
  CHECK(kernels[0].read.in_bytes() == 2 * vectors);
  CHECK(kernels[0].written.in_bytes() == 2 * joined);
  CHECK(kernels[0].flops.in_flop() == 2 * 4 * 4 * 4 * 8);
  CHECK(kernels[1].read.in_bytes() == 2 * (joined + vectors));
  CHECK(kernels[1].written.in_bytes() == 2 * vectors);
  CHECK(kernels[1].pass == Pass::Backward);
}

TEST_CASE("nothing of the pairs has another kernel, and nothing else changes") {
  const NetworkGraph step = make_training_graph(pairs(), {.optimizer = OptimizerKind::Sgd});
  std::vector<std::string> alone, fused;
  for (const auto& [name, kernel] : names_and_kernels(step, "pytorch")) alone.push_back(name);
  for (const auto& [name, kernel] : names_and_kernels(step, "pytorch_nvidia"))
    fused.push_back(name);
  const auto has = [](const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const char* name : {"features", "gemms", "picked", "picked bwd"}) {
    CAPTURE(name);
    CHECK(has(alone, name));
    CHECK(!has(fused, name));
  }
  for (const char* name : {"bottom", "top", "bottom wgrad", "rows", "rows bwd"}) {
    CAPTURE(name);
    CHECK(has(fused, name));
  }
}

TEST_CASE("a GEMM of pairs that something else reads stays as it is") {
  CHECK(pair_kernels(pairs(true), "pytorch_nvidia").empty());
  CHECK(pair_kernels(pairs(), "pytorch").empty());
}

TEST_SUITE_END();
