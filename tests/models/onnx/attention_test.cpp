#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "sim/base/error.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

constexpr std::int64_t kOpset = 23;

struct Row {
  std::string what;
  OneOp model;
  std::string shape;
  double macs;
};

OneOp attention(const std::vector<Dims>& inputs, const std::vector<Message>& attributes = {}) {
  const Names names = {"x", "y", "v", "w"};
  return one_op(
      inputs,
      node("Attention", {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(inputs.size())},
           {"z"}, attributes),
      {}, kOpset);
}

TEST_SUITE_BEGIN("models/onnx/attention");

TEST_CASE("the operator Attention is softmax(Q K^T) V, in one kernel or in steps") {
  const Dims four = {2, 8, 128, 64};
  const Message causal = attribute("is_causal", 1);
  const double whole = 2.0 * 8 * 128 * 128 * 64 * 2;
  const std::vector<Row> rows = {
      {"heads as a dimension", attention({four, four, four}), "2x8x128x64", whole},
      {"with a mask", attention({four, four, four, {2, 1, 128, 128}}), "2x8x128x64", whole},
      {"heads by attributes",
       attention({{2, 128, 512}, {2, 128, 512}, {2, 128, 512}},
                 {attribute("q_num_heads", 8), attribute("kv_num_heads", 8)}),
       "2x128x512", whole},
      {"shared heads of keys", attention({four, {2, 2, 128, 64}, {2, 2, 128, 64}}), "2x8x128x64",
       whole},
      {"values of another width", attention({four, four, {2, 8, 128, 32}}), "2x8x128x32",
       whole * 0.75},
      {"keys of another text", attention({four, {2, 8, 256, 64}, {2, 8, 256, 64}}), "2x8x128x64",
       2 * whole},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    for (const AttentionKernels kernels : {AttentionKernels::Fused, AttentionKernels::Steps}) {
      const bool fused = kernels == AttentionKernels::Fused;
      const OnnxNetwork network = import_model(row.model, {.batch = 2, .attention = kernels});
      CHECK(output_shape(network.graph) == row.shape);
      CHECK(network.graph.forward_macs() == row.macs);
      CHECK(count_ops(network.graph, OpKind::Attention) == (fused ? 1 : 0));
      CHECK(count_ops(network.graph, OpKind::MatMul) == (fused ? 0 : 2));
      CHECK(count_ops(network.graph, OpKind::Softmax) == (fused ? 0 : 1));
      CHECK(count_ops(network.graph, OpKind::Unknown) == 0);
      CHECK(network.warnings.empty());
    }
  }
  // A query sees half of the keys on average.
  const OnnxNetwork half = import_model(attention({four, four, four}, {causal}));
  CHECK(half.graph.forward_macs() < 0.51 * whole);
}

TEST_CASE("keys and values of earlier tokens stand before those of this step") {
  OneOp model;
  model.opset = kOpset;
  model.batch = 2;
  for (const char* name : {"q", "k", "v"}) model.inputs.push_back(value_info(name, {2, 8, 1, 64}));
  for (const char* name : {"past_k", "past_v"}) {
    model.inputs.push_back(value_info(name, {2, 8, 511, 64}));
  }
  model.nodes = {
      node("Attention", {"q", "k", "v", "", "past_k", "past_v"}, {"y", "all_k", "all_v"})};
  model.outputs = {value_info("y", {}), value_info("all_k", {}), value_info("all_v", {})};
  const NetworkGraph graph = import_model(model).graph;
  CHECK(to_string(graph.tensor(graph.outputs.at(1)).shape) == "2x8x512x64");
  CHECK(graph.forward_macs() == 2.0 * 8 * 1 * 512 * 64 * 2);
}

TEST_CASE("heads that do not fit are refused") {
  const Dims four = {2, 8, 128, 64};
  for (const OneOp& model :
       {attention({four, {2, 3, 128, 64}, {2, 3, 128, 64}}),
        attention({four, {2, 8, 128, 32}, four}),
        attention({{2, 128, 512}, {2, 128, 512}, {2, 128, 512}},
                  {attribute("q_num_heads", 7), attribute("kv_num_heads", 7)})}) {
    CHECK_THROWS_AS((void)import_model(model), InputError);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
