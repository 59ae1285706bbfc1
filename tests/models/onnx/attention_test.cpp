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

/// Layers of attention over 16 tokens of width 64, 4 heads, by the operator or step by step.
Model layers(bool by_operator) {
  Model model;
  model.opset = kOpset;
  model.inputs = {value_info("x", {1, 16, 64})};
  model.weights = {constant("heads", {1, 16, 4, 16}), constant("merge", {1, 16, 64})};
  std::string x = "x";
  for (const std::string layer : {"a", "b"}) {
    const auto name = [&layer](const char* what) { return layer + what; };
    for (const char* part : {"q", "k", "v"}) {
      const std::string weights = name(part) + "w";
      model.weights.push_back(weight(weights, {64, 64}));
      model.nodes.push_back(node("MatMul", {x, weights}, {name(part)}));
    }
    if (by_operator) {
      model.nodes.push_back(node("Attention", {name("q"), name("k"), name("v")}, {name("y")},
                                 {attribute("q_num_heads", 4), attribute("kv_num_heads", 4)}));
    } else {
      for (const char* part : {"q", "k", "v"}) {
        const std::string heads = name(part) + "h";
        const Dims turned = part == std::string("k") ? Dims{0, 2, 3, 1} : Dims{0, 2, 1, 3};
        model.nodes.push_back(node("Reshape", {name(part), "heads"}, {heads}));
        model.nodes.push_back(
            node("Transpose", {heads}, {heads + "t"}, {attribute("perm", turned)}));
      }
      model.nodes.push_back(node("MatMul", {name("qht"), name("kht")}, {name("s")}));
      model.nodes.push_back(node("Softmax", {name("s")}, {name("p")}, {attribute("axis", -1)}));
      model.nodes.push_back(node("MatMul", {name("p"), name("vht")}, {name("c")}));
      model.nodes.push_back(
          node("Transpose", {name("c")}, {name("ct")}, {attribute("perm", Dims{0, 2, 1, 3})}));
      model.nodes.push_back(node("Reshape", {name("ct"), "merge"}, {name("y")}));
    }
    model.weights.push_back(weight(name("ow"), {64, 64}));
    model.nodes.push_back(node("MatMul", {name("y"), name("ow")}, {name("o")}));
    model.nodes.push_back(node("Add", {x, name("o")}, {name("z")}));
    x = name("z");
  }
  model.outputs = {value_info(x, {1, 16, 64})};
  return model;
}

TEST_CASE("the operator Attention and the same written out become the same ops that take time") {
  const auto kinds = [](const NetworkGraph& graph) {
    std::vector<std::string> found;
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::Reshape) found.emplace_back(to_string(op.kind));  // views cost nothing
    }
    return found;
  };
  const NetworkGraph one = import_model(layers(true)).graph,
                     steps = import_model(layers(false)).graph;
  CHECK(kinds(one) == kinds(steps));
  CHECK(count_ops(one, OpKind::Attention) == 2);
  CHECK(one.forward_macs() == steps.forward_macs());
  CHECK(one.parameter_count() == steps.parameter_count());
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
