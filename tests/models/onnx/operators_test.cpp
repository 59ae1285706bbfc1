#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "sim/base/error.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

struct Row {
  std::string what;
  OneOp model;
  std::string shape;  ///< of the output
  OpKind kind;        ///< of the last op
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const OnnxNetwork network =
        import_model(row.model, {.batch = row.model.batch, .as_written = true});
    CHECK(output_shape(network.graph) == row.shape);
    CHECK(to_string(last_op(network.graph).kind) == to_string(row.kind));
    CHECK(network.warnings.empty());
  }
}

Message attribute_real(const char* name, float value) {
  return Message().text(1, name).real(2, value).number(20, 1);
}

/// A float initializer with values.
Message reals(const char* name, const std::vector<float>& values) {
  Message message;
  message.number(1, static_cast<std::int64_t>(values.size())).number(2, kFloat);
  for (const float value : values) message.real(4, value);
  return message.text(8, name);
}

TEST_SUITE_BEGIN("models/onnx/operators");

TEST_CASE("convolutions and pooling") {
  const Dims image = {2, 4, 9, 9};
  const auto conv = [](const std::vector<Message>& attributes) {
    return node("Conv", {"x", "f"}, {"z"}, attributes);
  };
  const std::vector<Message> filter = {weight("f", {8, 4, 3, 3})};
  const Message k3 = attribute("kernel_shape", Dims{3, 3}), s2 = attribute("strides", Dims{2, 2});
  check({
      // (9 - 3) / 1 + 1
      {"no pads", one_op({image}, conv({}), filter), "2x8x7x7", OpKind::Conv},
      {"stride 2 with pads",
       one_op({image}, conv({s2, attribute("pads", Dims{1, 1, 1, 1})}), filter), "2x8x5x5",
       OpKind::Conv},
      // ceil(9 / 2)
      {"SAME_UPPER", one_op({image}, conv({s2, attribute_text("auto_pad", "SAME_UPPER")}), filter),
       "2x8x5x5", OpKind::Conv},
      {"VALID", one_op({image}, conv({s2, attribute_text("auto_pad", "VALID")}), filter), "2x8x4x4",
       OpKind::Conv},
      // extent 2 * 2 + 1 = 5: 9 - 5 + 1
      {"dilated", one_op({image}, conv({attribute("dilations", Dims{2, 2})}), filter), "2x8x5x5",
       OpKind::Conv},
      {"in groups", one_op({image}, conv({attribute("group", 2)}), {weight("f", {8, 2, 3, 3})}),
       "2x8x7x7", OpKind::Conv},
      {"a signal", one_op({{2, 4, 9}}, conv({}), {weight("f", {8, 4, 3})}), "2x8x7", OpKind::Conv},
      // (9 - 1) * 2 + 3
      {"transposed",
       one_op({image}, node("ConvTranspose", {"x", "f"}, {"z"}, {s2}), {weight("f", {4, 8, 3, 3})}),
       "2x8x19x19", OpKind::ConvTranspose},
      {"transposed to a given size",
       one_op(
           {image},
           node("ConvTranspose", {"x", "f"}, {"z"}, {s2, attribute("output_shape", Dims{18, 18})}),
           {weight("f", {4, 8, 3, 3})}),
       "2x8x18x18", OpKind::ConvTranspose},
      {"max pool", one_op({image}, node("MaxPool", {"x"}, {"z"}, {k3, s2})), "2x4x4x4",
       OpKind::MaxPool},
      // (9 - 3) / 4 rounded up + 1
      {"ceil mode",
       one_op({image}, node("AveragePool", {"x"}, {"z"},
                            {k3, attribute("strides", Dims{4, 4}), attribute("ceil_mode", 1)})),
       "2x4x3x3", OpKind::AvgPool},
      {"global", one_op({image}, node("GlobalMaxPool", {"x"}, {"z"})), "2x4x1x1", OpKind::MaxPool},
  });
}

TEST_CASE("volumes: convolutions, pooling and their shapes") {
  const Dims volume = {2, 4, 9, 9, 9};
  const Message s2 = attribute("strides", Dims{2, 2, 2});
  const std::vector<Message> filter = {weight("f", {8, 4, 3, 3, 3})};
  check({
      // floor((9 - 3) / 2) + 1
      {"a convolution", one_op({volume}, node("Conv", {"x", "f"}, {"z"}, {s2}), filter),
       "2x8x4x4x4", OpKind::Conv},
      // ceil(9 / 2)
      {"SAME_UPPER",
       one_op({volume},
              node("Conv", {"x", "f"}, {"z"}, {s2, attribute_text("auto_pad", "SAME_UPPER")}),
              filter),
       "2x8x5x5x5", OpKind::Conv},
      // (9 - 1) * 2 + 3
      {"transposed",
       one_op({volume}, node("ConvTranspose", {"x", "g"}, {"z"}, {s2}),
              {weight("g", {4, 8, 3, 3, 3})}),
       "2x8x19x19x19", OpKind::ConvTranspose},
      {"pooling",
       one_op({volume}, node("MaxPool", {"x"}, {"z"}, {attribute("kernel_shape", Dims{3, 3, 3})})),
       "2x4x7x7x7", OpKind::MaxPool},
      {"its mean", one_op({volume}, node("GlobalAveragePool", {"x"}, {"z"})), "2x4x1x1x1",
       OpKind::AvgPool},
  });
  // 4^3 results for each sample and filter, 4 * 27 GEMMs each; transposed: as many as inputs times
  // filter cells
  const auto macs = [](const OneOp& model) { return import_model(model).graph.forward_macs(); };
  CHECK(macs(one_op({volume}, node("Conv", {"x", "f"}, {"z"}, {s2}), filter)) ==
        2 * 8 * 64 * 4 * 27);
  CHECK(macs(one_op({volume}, node("ConvTranspose", {"x", "g"}, {"z"}, {s2}),
                    {weight("g", {4, 8, 3, 3, 3})})) == 2 * 4 * 729 * 8 * 27);
}

TEST_CASE("what picks, scatters, sorts or samples has the shape that ONNX says") {
  const auto scalar = [](const char* name, std::int64_t value) {
    return Message().number(2, kInt64).number(7, value).text(8, name);
  };
  check({
      {"scattered",
       one_op({{4, 8}, {4, 8}}, node("ScatterElements", {"x", "i", "y"}, {"z"}),
              {weight("i", {4, 8}, kInt64)}),
       "4x8", OpKind::Gather},
      {"one hot",
       one_op({{4, 8}}, node("OneHot", {"x", "depth", "values"}, {"z"}),
              {scalar("depth", 5), weight("values", {2})}),
       "4x8x5", OpKind::Gather},
      {"sums so far", one_op({{4, 8}}, node("CumSum", {"x", "axis"}, {"z"}), {scalar("axis", 1)}),
       "4x8", OpKind::Activation},
      {"boxes",
       one_op({{7, 16, 32, 32}, {7, 4}},
              node("RoiAlign", {"x", "y", "i"}, {"z"},
                   {attribute("output_height", 3), attribute("output_width", 5)}),
              {weight("i", {7}, kInt64)}),
       "7x16x3x5", OpKind::Resize},
      {"a grid", one_op({{2, 3, 8, 8}, {2, 4, 6, 2}}, node("GridSample", {"x", "y"}, {"z"})),
       "2x3x4x6", OpKind::Resize},
  });
  const OnnxNetwork best = import_model(
      one_op({{4, 8}}, node("TopK", {"x", "k"}, {"z", "where"}), {constant("k", {3})}));
  CHECK(output_shape(best.graph) == "4x3");
}

TEST_CASE("einsums of one operand, with dots, without a result") {
  const auto einsum = [](const std::vector<Dims>& inputs, const char* equation) {
    const Names names = inputs.size() == 1 ? Names{"x"} : Names{"x", "y"};
    return one_op(inputs, node("Einsum", names, {"z"}, {attribute_text("equation", equation)}));
  };
  check({
      {"a sum", einsum({{2, 4, 8}}, "bij->b"), "2", OpKind::Reduce},
      {"an order", einsum({{2, 4, 8}}, "bij->bji"), "2x8x4", OpKind::Transpose},
      {"dots", einsum({{2, 3, 4, 8}, {2, 3, 8, 5}}, "...ij,...jk->...ik"), "2x3x4x5",
       OpKind::MatMul},
      {"no result", einsum({{4, 8}, {4, 8}}, "ij, kj"), "4x4", OpKind::MatMul},
  });
}

TEST_CASE("side results have the shapes that ONNX says") {
  const auto second = [](OneOp model) {
    model.outputs = {value_info("side", {})};
    return output_shape(import_model(model).graph);
  };
  CHECK(second(one_op({{2, 4, 8, 8}}, node("MaxPool", {"x"}, {"z", "side"},
                                           {attribute("kernel_shape", Dims{2, 2}),
                                            attribute("strides", Dims{2, 2})}))) == "2x4x4x4");
}

TEST_CASE("pads that an exporter computes are known") {
  // torch.onnx writes pads in PyTorch's order, last dimension first, and turns them round at run
  // time: (left, right, top, bottom, 0, 0, 0, 0) to rows of two, rows reversed, transposed.
  OneOp model = one_op({{1, 3, 8, 8}}, node("Pad", {"x", "pads"}, {"z"}));
  model.weights = {constant("given", {1, 2, 3, 4, 0, 0, 0, 0}),
                   constant("rows", {-1, 2}),
                   constant("last", {-1}),
                   constant("far", {-9223372036854775807}),
                   constant("zero", {0}),
                   constant("back", {-1})};
  model.nodes = {node("Reshape", {"given", "rows"}, {"a"}),
                 node("Slice", {"a", "last", "far", "zero", "back"}, {"b"}),
                 node("Transpose", {"b"}, {"c"}, {attribute("perm", Dims{1, 0})}),
                 node("Reshape", {"c", "last"}, {"pads"}), model.nodes[0]};
  const OnnxNetwork network = import_model(model);
  CHECK(output_shape(network.graph) == "1x3x15x11");  // 3 + 8 + 4, 1 + 8 + 2
  CHECK(network.warnings.empty());
}

TEST_CASE("equal vectors that a file holds once are parameters of each layer") {
  // Exporters write the ones of fresh scales once and name the copies by Identity; running
  // statistics share too.
  OneOp model = one_op({{2, 4, 8, 8}}, node("Relu", {"x"}, {"z"}));
  model.weights = {weight("ones", {4}), weight("zeros", {4})};
  const Names shared = {"y", "ones2", "zeros2", "zeros", "ones"};
  model.nodes = {node("Identity", {"ones"}, {"ones2"}), node("Identity", {"zeros"}, {"zeros2"}),
                 node("BatchNormalization", {"x", "ones", "zeros", "zeros", "ones"}, {"y"}),
                 node("BatchNormalization", shared, {"z"})};
  CHECK(import_model(model).graph.parameter_count() == 16);
}

TEST_CASE("recurrent layers keep ONNX's shapes, gates and weights") {
  struct Layer {
    const char* what;
    const char* op;
    std::int64_t gates, directions, layout;
    const char* shape;
  };
  const Layer layers[] = {
      {"LSTM", "LSTM", 4, 1, 0, "7x1x2x32"},
      {"both directions", "LSTM", 4, 2, 0, "7x2x2x32"},
      {"batch first", "GRU", 3, 2, 1, "7x2x2x32"},  // N = 7, steps = 2
      {"plain", "RNN", 1, 1, 0, "7x1x2x32"},
  };
  for (const Layer& layer : layers) {
    CAPTURE(layer.what);
    const std::int64_t rows = layer.gates * 32;
    const OnnxNetwork network = import_model(one_op(
        {{7, 2, 16}},
        node(layer.op, {"x", "w", "r", "b"}, {"z"},
             {attribute("hidden_size", 32), attribute("layout", layer.layout),
              attribute_text("direction", layer.directions == 2 ? "bidirectional" : "forward")}),
        {weight("w", {layer.directions, rows, 16}), weight("r", {layer.directions, rows, 32}),
         weight("b", {layer.directions, 2 * rows})}));
    CHECK(output_shape(network.graph) == layer.shape);
    CHECK(network.warnings.empty());
    CHECK(network.graph.parameter_count() == layer.directions * rows * (16 + 32 + 2));
    // 14 states in all, whichever of the two dimensions is time.
    CHECK(network.graph.forward_macs() ==
          static_cast<double>(14 * layer.directions * rows * (16 + 32)));
  }
  // The last state alone.
  const OnnxNetwork last = import_model(
      one_op({{7, 2, 16}}, node("LSTM", {"x", "w", "r"}, {"", "z"}, {attribute("hidden_size", 32)}),
             {weight("w", {1, 128, 16}), weight("r", {1, 128, 32})}));
  CHECK(output_shape(last.graph) == "1x2x32");
  CHECK(last.warnings.empty());
  CHECK_THROWS_AS(
      (void)import_model(one_op({{7, 2, 16}}, node("GRU", {"x", "w", "r"}, {"z"}),
                                {weight("w", {1, 128, 16}), weight("r", {1, 128, 32})})),
      InputError);
}

TEST_CASE("SAME_UPPER puts the odd cell after the image, SAME_LOWER before it") {
  // 8 at stride 2: 4 places, total pad (4 - 1) * 2 + 3 - 8 = 1.
  for (const bool upper : {true, false}) {
    const OneOp model =
        one_op({{1, 4, 8, 8}},
               node("Conv", {"x", "f"}, {"z"},
                    {attribute("strides", Dims{2, 2}),
                     attribute_text("auto_pad", upper ? "SAME_UPPER" : "SAME_LOWER")}),
               {weight("f", {8, 4, 3, 3})});
    const NetworkGraph graph = import_model(model).graph;
    const auto& attributes = std::get<ConvAttributes>(last_op(graph).attributes);
    CHECK(attributes.pad_top == (upper ? 0 : 1));
    CHECK(attributes.pad_bottom == (upper ? 1 : 0));
  }
}

TEST_CASE("a convolution carries its geometry and its multiply-adds") {
  // 2 * 8 * 7 * 7 * 4 * 3 * 3
  const NetworkGraph graph =
      import_model(one_op({{2, 4, 9, 9}}, node("Conv", {"x", "f", "b"}, {"z"}),
                          {weight("f", {8, 4, 3, 3}), weight("b", {8})}),
                   {.batch = 2})
          .graph;
  CHECK(graph.forward_macs() == 2.0 * 8 * 7 * 7 * 4 * 9);
  CHECK(graph.parameter_count() == 8 * 4 * 9 + 8);
  CHECK(std::get<ConvAttributes>(last_op(graph).attributes).has_bias);
}

TEST_CASE("GEMMs with a constant are linear layers, of two activations they are not") {
  const Message trans_b = attribute("transB", 1), trans_a = attribute("transA", 1);
  check({
      {"Gemm", one_op({{4, 8}}, node("Gemm", {"x", "m"}, {"z"}), {weight("m", {8, 5})}), "4x5",
       OpKind::Linear},
      {"Gemm with transB",
       one_op({{4, 8}}, node("Gemm", {"x", "m"}, {"z"}, {trans_b}), {weight("m", {5, 8})}), "4x5",
       OpKind::Linear},
      {"Gemm of two activations",
       one_op({{4, 8}, {4, 8}}, node("Gemm", {"x", "y"}, {"z"}, {trans_b})), "4x4", OpKind::MatMul},
      {"Gemm with transA",
       one_op({{4, 8}}, node("Gemm", {"x", "m"}, {"z"}, {trans_a}), {weight("m", {4, 5})}), "8x5",
       OpKind::MatMul},
      {"MatMul by a constant",
       one_op({{4, 6, 8}}, node("MatMul", {"x", "m"}, {"z"}), {weight("m", {8, 5})}), "4x6x5",
       OpKind::Linear},
      {"attention scores", one_op({{4, 2, 6, 8}, {4, 2, 8, 6}}, node("MatMul", {"x", "y"}, {"z"})),
       "4x2x6x6", OpKind::MatMul},
      {"a matrix and a vector",
       one_op({{4, 6}, {4, 6}}, node("MatMul", {"x", "v"}, {"z"}), {weight("v", {6})}), "4",
       OpKind::Reshape},
      {"Einsum as a GEMM",
       one_op({{4, 2, 6, 8}, {4, 2, 7, 8}},
              node("Einsum", {"x", "y"}, {"z"}, {attribute_text("equation", "bhqd,bhkd->bhqk")})),
       "4x2x6x7", OpKind::MatMul},
  });
}

TEST_CASE("an addition of a constant vector right after a GEMM is its bias") {
  OneOp model = one_op({{4, 6, 8}}, node("MatMul", {"x", "m"}, {"gemm"}),
                       {weight("m", {8, 5}), weight("b", {5})});
  model.nodes.push_back(node("Add", {"b", "gemm"}, {"z"}));
  const NetworkGraph graph = import_model(model).graph;
  REQUIRE(graph.ops().size() == 1);
  CHECK(std::get<MatMulAttributes>(last_op(graph).attributes).has_bias);
  CHECK(graph.parameter_count() == 8 * 5 + 5);
  // Not when somebody else reads the GEMM as well.
  model.nodes.push_back(node("Relu", {"gemm"}, {"other"}));
  model.outputs.push_back(value_info("other", {}));
  CHECK(import_model(model).graph.ops().size() == 3);
}

TEST_CASE("features that do not fit the weight are refused with the number that does") {
  const OneOp model = one_op({{4, 8}}, node("Gemm", {"x", "m"}, {"z"}), {weight("m", {9, 5})});
  try {
    (void)import_model(model);
    FAIL("8 features and a weight of 9");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("found 8 features; expected 9 features") !=
          std::string::npos);
  }
}

TEST_CASE("normalisation") {
  const std::vector<Message> four = {weight("s", {4}), weight("b", {4}), weight("m", {4}),
                                     weight("v", {4})};
  check({
      {"batch",
       one_op({{2, 4, 3, 3}}, node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"z"}), four),
       "2x4x3x3", OpKind::BatchNorm},
      {"layer", one_op({{2, 3, 4}}, node("LayerNormalization", {"x", "s", "b"}, {"z"}), four, 17),
       "2x3x4", OpKind::LayerNorm},
      {"instance",
       one_op({{2, 4, 3, 3}}, node("InstanceNormalization", {"x", "s", "b"}, {"z"}), four),
       "2x4x3x3", OpKind::InstanceNorm},
      {"group",
       one_op({{2, 4, 3, 3}},
              node("GroupNormalization", {"x", "s", "b"}, {"z"}, {attribute("num_groups", 2)}),
              four, 21),
       "2x4x3x3", OpKind::GroupNorm},
      {"local response", one_op({{2, 4, 3, 3}}, node("LRN", {"x"}, {"z"}, {attribute("size", 5)})),
       "2x4x3x3", OpKind::Lrn},
      {"softmax", one_op({{2, 10}}, node("Softmax", {"x"}, {"z"})), "2x10", OpKind::Softmax},
  });
}

TEST_CASE("running statistics of batch norm are not parameters") {
  const NetworkGraph graph =
      import_model(one_op({{1, 4, 3, 3}},
                          node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"z"}),
                          {weight("s", {4}), weight("b", {4}), weight("m", {4}), weight("v", {4})}))
          .graph;
  CHECK(graph.parameter_count() == 8);
}

TEST_CASE("softmax up to opset 12 runs over everything from its axis on") {
  const auto rows_and_cols = [](std::int64_t opset) {
    const NetworkGraph graph =
        import_model(
            one_op({{2, 3, 5}}, node("Softmax", {"x"}, {"z"}, {attribute("axis", 1)}), {}, opset))
            .graph;
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::Softmax) continue;
      const auto& norm = std::get<NormAttributes>(op.attributes);
      return std::pair(norm.rows, norm.cols);
    }
    return std::pair<std::int64_t, std::int64_t>(0, 0);
  };
  CHECK(rows_and_cols(11) == std::pair<std::int64_t, std::int64_t>(2, 15));
  CHECK(rows_and_cols(13) == std::pair<std::int64_t, std::int64_t>(10, 3));
}

TEST_CASE("element by element, with broadcasting") {
  check({
      {"relu", one_op({{2, 4}}, node("Relu", {"x"}, {"z"})), "2x4", OpKind::Activation},
      {"clip with bounds",
       one_op({{2, 4}}, node("Clip", {"x", "low", "high"}, {"z"}),
              {reals("low", {0}), reals("high", {6})}),
       "2x4", OpKind::Activation},
      {"leaky relu",
       one_op({{2, 4}}, node("LeakyRelu", {"x"}, {"z"}, {attribute_real("alpha", 0.1F)})), "2x4",
       OpKind::Activation},
      {"prelu",
       one_op({{2, 4, 3, 3}}, node("PRelu", {"x", "slope"}, {"z"}), {weight("slope", {4, 1, 1})}),
       "2x4x3x3", OpKind::Activation},
      {"two activations", one_op({{2, 4}, {2, 4}}, node("Add", {"x", "y"}, {"z"})), "2x4",
       OpKind::Binary},
      {"a row and a column", one_op({{2, 1}, {2, 4}}, node("Mul", {"x", "y"}, {"z"})), "2x4",
       OpKind::Binary},
      {"shorter rank", one_op({{2, 4, 5}}, node("Add", {"x", "b"}, {"z"}), {weight("b", {4, 1})}),
       "2x4x5", OpKind::Binary},
      {"three", one_op({{2, 4}, {2, 4}, {2, 4}}, node("Sum", {"x", "y", "v"}, {"z"})), "2x4",
       OpKind::Binary},
      {"a choice",
       one_op({{2, 4}, {2, 4}}, node("Where", {"c", "x", "y"}, {"z"}), {weight("c", {1, 4}, 9)}),
       "2x4", OpKind::Binary},
      {"a plain number is part of the function",
       one_op({{2, 4}}, node("Pow", {"x", "two"}, {"z"}), {reals("two", {2})}), "2x4",
       OpKind::Activation},
      {"a number to a type", one_op({{2, 4}}, node("Cast", {"x"}, {"z"}, {attribute("to", 7)})),
       "2x4", OpKind::Cast},
  });
}

TEST_CASE("comparisons and casts give integers of their size") {
  const NetworkGraph test =
      import_model(one_op({{2, 4}, {2, 4}}, node("Less", {"x", "y"}, {"z"}))).graph;
  CHECK(test.tensor(test.outputs[0]).is_integer);
  CHECK(test.tensor(test.outputs[0]).integer_bytes == 1);
  const NetworkGraph cast =
      import_model(one_op({{2, 4}}, node("Cast", {"x"}, {"z"}, {attribute("to", 6)}))).graph;
  CHECK(cast.tensor(cast.outputs[0]).integer_bytes == 4);
}

TEST_CASE("moving data") {
  const Dims x = {2, 6, 4};
  check({
      {"transpose",
       one_op({x}, node("Transpose", {"x"}, {"z"}, {attribute("perm", Dims{2, 0, 1})})), "4x2x6",
       OpKind::Transpose},
      {"transpose reverses by default", one_op({x}, node("Transpose", {"x"}, {"z"})), "4x6x2",
       OpKind::Transpose},
      {"concat", one_op({x, {2, 3, 4}}, node("Concat", {"x", "y"}, {"z"}, {attribute("axis", 1)})),
       "2x9x4", OpKind::Concat},
      {"split in two", one_op({x}, node("Split", {"x"}, {"z", "rest"}, {attribute("axis", 1)})),
       "2x3x4", OpKind::Split},
      {"split in three of 3, 3 and 1",
       one_op({{2, 7, 4}}, node("Split", {"x"}, {"z", "rest", "last"}, {attribute("axis", 1)})),
       "2x3x4", OpKind::Split},
      {"split by sizes",
       one_op({x},
              node("Split", {"x"}, {"z", "rest"},
                   {attribute("axis", 1), attribute("split", Dims{1, 5})}),
              {}, 11),
       "2x1x4", OpKind::Split},
      {"slice with a step",
       one_op({x}, node("Slice", {"x", "start", "end", "axis", "step"}, {"z"}),
              {constant("start", {5}), constant("end", {-100}), constant("axis", {1}),
               constant("step", {-2})}),
       "2x3x4", OpKind::Slice},  // 5, 3, 1
      {"slice by attributes",
       one_op({x},
              node("Slice", {"x"}, {"z"},
                   {attribute("starts", Dims{1}), attribute("ends", Dims{1 << 30}),
                    attribute("axes", Dims{1})}),
              {}, 9),
       "2x5x4", OpKind::Slice},
      {"pad",
       one_op({x}, node("Pad", {"x", "pads"}, {"z"}), {constant("pads", {0, 1, 0, 0, 2, 0})}),
       "2x9x4", OpKind::Pad},
      {"flatten", one_op({x}, node("Flatten", {"x"}, {"z"}, {attribute("axis", 2)})), "12x4",
       OpKind::Reshape},
      {"flatten whole", one_op({x}, node("Flatten", {"x"}, {"z"}, {attribute("axis", 3)})), "48x1",
       OpKind::Reshape},
      {"unsqueeze",
       one_op({x}, node("Unsqueeze", {"x", "axes"}, {"z"}), {constant("axes", {0, -1})}),
       "1x2x6x4x1", OpKind::Reshape},
      {"squeeze",
       one_op({{2, 1, 4}}, node("Squeeze", {"x"}, {"z"}, {attribute("axes", Dims{1})}), {}, 11),
       "2x4", OpKind::Reshape},
      {"expand",
       one_op({{2, 1, 4}}, node("Expand", {"x", "shape"}, {"z"}), {constant("shape", {6, 1})}),
       "2x6x4", OpKind::Gather},
      {"tile", one_op({x}, node("Tile", {"x", "repeats"}, {"z"}), {constant("repeats", {1, 2, 3})}),
       "2x12x12", OpKind::Gather},
      {"one of a dimension",
       one_op({x}, node("Gather", {"x", "i"}, {"z"}, {attribute("axis", 1)}), {constant("i", {0})}),
       "2x1x4", OpKind::Gather},
      {"rows of a table",
       one_op({{2, 6}}, node("Gather", {"table", "ids"}, {"z"}),
              {weight("table", {100, 16}), weight("ids", {3, 5}, kInt64)}),
       "3x5x16", OpKind::Embedding},
      {"resize by scales",
       one_op({{1, 3, 8, 8}}, node("Resize", {"x", "", "scales"}, {"z"}),
              {reals("scales", {1, 1, 2, 1.5})}),
       "1x3x16x12", OpKind::Resize},
      {"upsample",
       one_op({{1, 3, 8, 8}}, node("Upsample", {"x", "scales"}, {"z"}),
              {reals("scales", {1, 1, 2, 2})}, 9),
       "1x3x16x16", OpKind::Resize},
      {"pixels from channels",
       one_op({{1, 8, 3, 3}}, node("DepthToSpace", {"x"}, {"z"}, {attribute("blocksize", 2)})),
       "1x2x6x6", OpKind::Transpose},
      {"mean over the image",
       one_op({{2, 4, 3, 3}}, node("ReduceMean", {"x"}, {"z"},
                                   {attribute("axes", Dims{2, 3}), attribute("keepdims", 0)})),
       "2x4", OpKind::Reduce},
      {"sum with axes as an input",
       one_op({x}, node("ReduceSum", {"x", "axes"}, {"z"}), {constant("axes", {-1})}), "2x6x1",
       OpKind::Reduce},
      {"the largest", one_op({x}, node("ArgMax", {"x"}, {"z"}, {attribute("axis", 1)})), "2x1x4",
       OpKind::Reduce},
  });
}

TEST_CASE("dropout costs nothing at inference and leaves a mask in training") {
  OneOp model = one_op({{2, 4}}, node("Dropout", {"x"}, {"dropped"}));
  model.nodes.push_back(node("Relu", {"dropped"}, {"z"}));
  CHECK(import_model(model).graph.ops().size() == 1);
  const NetworkGraph training = import_model(model, {.batch = 2, .training = true}).graph;
  REQUIRE(training.ops().size() == 2);
  CHECK(training.ops()[0].kind == OpKind::Dropout);
  CHECK(training.ops()[0].outputs.size() == 2);
}

TEST_CASE("arithmetic on shapes leaves no ops") {
  // x: 2 x 6 x 4 to (2 * 6) x 4, computed as exporters do: Shape, Slice, ReduceProd, Concat.
  OneOp model = one_op({{2, 6, 4}}, node("Shape", {"x"}, {"shape"}),
                       {constant("zero", {0}), constant("two", {2}), constant("three", {3}),
                        constant("minus", {-1}), constant("factor", {2})});
  model.nodes.insert(model.nodes.end(),
                     {node("Slice", {"shape", "zero", "two"}, {"leading"}),
                      node("ReduceProd", {"leading"}, {"rows"}),
                      node("Slice", {"shape", "two", "three"}, {"last"}),
                      node("Mul", {"rows", "factor"}, {"double"}),
                      node("Div", {"double", "factor"}, {"rows_again"}),
                      node("Sub", {"rows_again", "zero"}, {"same"}),
                      node("Cast", {"same"}, {"cast"}, {attribute("to", 7)}),
                      node("Concat", {"cast", "last"}, {"target"}, {attribute("axis", 0)}),
                      node("Equal", {"target", "minus"}, {"is_open"}),
                      node("Where", {"is_open", "shape_2", "target"}, {"chosen"}),
                      node("Reshape", {"x", "chosen"}, {"z"})});
  model.weights.push_back(constant("shape_2", {12, 4}));
  const OnnxNetwork network = import_model(model, {.batch = 3});
  CHECK(output_shape(network.graph) == "18x4");
  CHECK(network.graph.ops().size() == 1);
  CHECK(network.warnings.empty());
}

TEST_CASE("a constant of a constant shape is a weight, of an input's shape it is not") {
  Model model =
      one_op({{1, 8}}, node("ConstantOfShape", {"shape"}, {"m"}), {constant("shape", {8, 5})});
  model.nodes.push_back(node("MatMul", {"x", "m"}, {"z"}));
  const NetworkGraph weights = import_model(model, {.batch = 4}).graph;
  CHECK(weights.ops().size() == 1);
  CHECK(weights.parameter_count() == 40);

  Model state = one_op({{1, 8}}, node("Shape", {"x"}, {"shape"}));
  state.nodes.insert(state.nodes.end(), {node("ConstantOfShape", {"shape"}, {"zeros"}),
                                         node("Add", {"x", "zeros"}, {"z"})});
  const NetworkGraph zeros = import_model(state, {.batch = 4}).graph;
  CHECK(output_shape(zeros) == "4x8");
  CHECK(zeros.parameter_count() == 0);
}

TEST_CASE("a weight read through several views is counted once") {
  // A table that also is the output matrix, transposed: tied embeddings.
  Model model =
      one_op({}, node("Gather", {"table", "ids"}, {"embedded"}), {weight("table", {100, 16})});
  model.inputs = {value_info("ids", {1, 7}, kInt64)};
  model.nodes.insert(model.nodes.end(), {node("Transpose", {"table"}, {"matrix"}),
                                         node("MatMul", {"embedded", "matrix"}, {"z"})});
  const NetworkGraph graph = import_model(model, {.batch = 2}).graph;
  CHECK(output_shape(graph) == "2x7x100");
  CHECK(graph.parameter_count() == 1600);
  CHECK(graph.forward_macs() == 2.0 * 7 * 16 * 100);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
