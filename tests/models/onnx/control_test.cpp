#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "sim/base/error.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

Message graph(const Names& inputs, const std::vector<Message>& nodes, const Names& outputs) {
  Message message;
  for (const Message& one : nodes) message.message(1, one);
  for (const std::string& name : inputs) message.message(11, value_info(name, {}));
  for (const std::string& name : outputs) message.message(12, value_info(name, {}));
  return message;
}

/// A GEMM with `matrix`, rows of 8 to rows of 8.
Message gemm(const std::string& x, const std::string& y, const std::string& matrix = "matrix") {
  return node("MatMul", {x, matrix}, {y});
}

Model network(const std::vector<Message>& nodes, const std::vector<Message>& weights = {}) {
  Model model;
  model.inputs = {value_info("x", {1, 8})};
  model.outputs = {value_info("z", {})};
  model.weights = {weight("matrix", {8, 8}), weight("other", {8, 8})};
  model.weights.insert(model.weights.end(), weights.begin(), weights.end());
  model.nodes = nodes;
  return model;
}

TEST_SUITE_BEGIN("models/onnx/control");

TEST_CASE("a branch whose condition follows from shapes is taken, the other leaves nothing") {
  const auto branch = [](const char* function) {
    return graph({}, {node(function, {"x"}, {"inside"})}, {"inside"});
  };
  const auto taken = [&](std::int64_t size) {
    const Model model =
        network({node("Size", {"x"}, {"size"}), node("Equal", {"size", "wanted"}, {"condition"}),
                 node("If", {"condition"}, {"z"},
                      {attribute_graph("then_branch", branch("Relu")),
                       attribute_graph("else_branch", branch("Sigmoid"))})},
                {constant("wanted", {size})});
    const OnnxNetwork imported = import_model(model);
    CHECK(imported.warnings.empty());
    CHECK(imported.graph.ops().size() == 1);
    return std::get<ElementwiseAttributes>(last_op(imported.graph).attributes).name;
  };
  CHECK(taken(8) == "relu");
  CHECK(taken(9) == "sigmoid");
}

TEST_CASE("where the data decide the longer branch is taken, and said to be") {
  const Message shorter = graph({}, {gemm("x", "a")}, {"a"});
  const Message longer = graph({}, {gemm("x", "b"), gemm("b", "c", "other")}, {"c"});
  const OnnxNetwork imported = import_model(network(
      {node("ReduceSum", {"x"}, {"sum"}),
       node("Cast", {"sum"}, {"condition"}, {attribute("to", 9)}),
       node("If", {"condition"}, {"z"},
            {attribute_graph("then_branch", shorter), attribute_graph("else_branch", longer)})}));
  CHECK(imported.graph.forward_macs() == 2 * 64);
  CHECK(output_shape(imported.graph) == "1x8");
  REQUIRE(imported.warnings.size() == 1);
  CHECK(imported.warnings[0].find("else branch") != std::string::npos);
}

TEST_CASE("a loop of known length repeats its body, shares its weights and stacks its results") {
  // state = state * matrix, 5 times; each state is a result as well
  const Message body = graph({"i", "goes_on", "state"},
                             {gemm("state", "next"), node("Identity", {"goes_on"}, {"still"})},
                             {"still", "next", "next"});
  const OnnxNetwork imported = import_model(
      network({node("Loop", {"count", "", "x"}, {"last", "z"}, {attribute_graph("body", body)})},
              {constant("count", {5})}),
      {.batch = 3});
  CHECK(output_shape(imported.graph) == "5x3x8");
  CHECK(imported.graph.forward_macs() == 5 * 3 * 64);
  CHECK(imported.graph.parameter_count() == 64);
}

TEST_CASE("a loop that only the data end runs once, and says so") {
  const Message body = graph({"i", "goes_on", "state"},
                             {gemm("state", "next"), node("ReduceSum", {"next"}, {"sum"}),
                              node("Cast", {"sum"}, {"still"}, {attribute("to", 9)})},
                             {"still", "next"});
  const OnnxNetwork imported =
      import_model(network({node("Loop", {"", "", "x"}, {"z"}, {attribute_graph("body", body)})}));
  CHECK(imported.graph.forward_macs() == 64);
  REQUIRE(imported.warnings.size() == 1);
  CHECK(imported.warnings[0].find("once is assumed") != std::string::npos);
}

TEST_CASE("an endless loop is refused, not run") {
  const Message body =
      graph({"i", "goes_on", "state"},
            {gemm("state", "next"), node("Identity", {"goes_on"}, {"still"})}, {"still", "next"});
  CHECK_THROWS_AS(
      import_model(network({node("Loop", {"", "", "x"}, {"z"}, {attribute_graph("body", body)})})),
      InputError);
}

TEST_CASE("a scan runs its body for every element of the sequence") {
  const Message body =
      graph({"state", "element"},
            {gemm("element", "seen"), node("Add", {"state", "seen"}, {"next"})}, {"next", "next"});
  Model model = network({node("Scan", {"start", "x"}, {"last", "z"},
                              {attribute_graph("body", body), attribute("num_scan_inputs", 1)})},
                        {weight("start", {2, 8})});
  model.inputs = {value_info("x", {6, 2, 8})};
  const OnnxNetwork imported = import_model(model, {.batch = 6});
  CHECK(output_shape(imported.graph) == "6x2x8");
  CHECK(imported.graph.forward_macs() == 6 * 2 * 64);
}

TEST_CASE("PyTorch's loop over bags of ids is one EmbeddingBag at any batch") {
  // As torch.onnx writes nn.EmbeddingBag: 4 bags of 3 ids, offsets as a constant.
  const Message body = graph(
      {"i", "goes_on"},
      {node("Gather", {"offsets", "i"}, {"from"}), node("Gather", {"ends", "i"}, {"to"}),
       node("Unsqueeze", {"from", "zero"}, {"first"}), node("Unsqueeze", {"to", "zero"}, {"last"}),
       node("Slice", {"flat", "first", "last", "zero"}, {"bag"}),
       node("Gather", {"table", "bag"}, {"rows"}),
       node("ReduceSum", {"rows", "zero"}, {"sum"}, {attribute("keepdims", 0)}),
       node("Identity", {"goes_on"}, {"still"})},
      {"still", "sum"});
  Model model;
  model.inputs = {value_info("ids", {4, 3}, kInt64)};
  model.outputs = {value_info("z", {})};
  model.weights = {weight("table", {100, 16}),      constant("offsets", {0, 3, 6, 9}),
                   constant("ends", {3, 6, 9, 12}), constant("zero", {0}),
                   constant("all", {-1}),           constant("count", {4})};
  model.nodes = {node("Reshape", {"ids", "all"}, {"flat"}),
                 node("Loop", {"count", ""}, {"z"}, {attribute_graph("body", body)})};
  for (const std::int64_t batch : {4, 32}) {
    CAPTURE(batch);
    const OnnxNetwork imported = import_model(model, {.batch = batch});
    CHECK(last_op(imported.graph).kind == OpKind::EmbeddingBag);
    CHECK(output_shape(imported.graph) == std::to_string(batch) + "x16");
    CHECK(imported.graph.parameter_count() == 1600);
  }
}

TEST_CASE("sequences are followed element by element") {
  // chunks of 3, 3 and 2 columns; the last one again in front of a list, then joined: 2 + 8
  const OnnxNetwork imported = import_model(
      network({node("Relu", {"x"}, {"y"}),
               node("SplitToSequence", {"y", "chunk"}, {"chunks"}, {attribute("axis", 1)}),
               node("SequenceAt", {"chunks", "last"}, {"tail"}),
               node("SequenceInsert", {"chunks", "tail", "zero"}, {"more"}),
               node("ConcatFromSequence", {"more"}, {"z"}, {attribute("axis", 1)})},
              {Message().number(2, kInt64).number(7, 3).text(8, "chunk"),
               Message().number(2, kInt64).number(7, -1).text(8, "last"),
               Message().number(2, kInt64).number(7, 0).text(8, "zero")}),
      {.batch = 2});
  CHECK(output_shape(imported.graph) == "2x10");
  CHECK(imported.warnings.empty());
}

}  // namespace
}  // namespace tracecast
