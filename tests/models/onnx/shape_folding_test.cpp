#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "models/onnx/import.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

constexpr std::int64_t kToInteger = 7, kToReal = 1;

/// A number `n` that `nodes` compute from `size` (a vector of one element, the width of x), as the
/// padding of x: 1 x 8 becomes 1 x (8 + n).
Model padded_by(const std::vector<Message>& nodes, const std::vector<Message>& more = {}) {
  OneOp model = one_op({{1, 8}}, node("Pad", {"x", "pads"}, {"z"}));
  model.weights = {constant("one", {1}), constant("none", {0, 0, 0})};
  model.weights.insert(model.weights.end(), more.begin(), more.end());
  model.nodes = {node("Shape", {"x"}, {"shape"}), node("Gather", {"shape", "one"}, {"size"})};
  model.nodes.insert(model.nodes.end(), nodes.begin(), nodes.end());
  model.nodes.push_back(node("Concat", {"none", "n"}, {"pads"}, {attribute("axis", 0)}));
  model.nodes.push_back(node("Pad", {"x", "pads"}, {"z"}));
  return model;
}

TEST_SUITE_BEGIN("models/onnx/shape_folding");

TEST_CASE("arithmetic on shapes is followed whatever operators an exporter writes it with") {
  const Message ten = constant("ten", {10}), five = constant("five", {5}),
                zero = constant("zero", {0}), two = constant("two", {2}),
                axis = constant("axis", {0});
  const Message less = node("Sub", {"size", "ten"}, {"less"});  // -2
  const auto as_real = [](const char* from, const char* to) {
    return node("Cast", {from}, {to}, {attribute("to", kToReal)});
  };
  const auto as_integer = [](const char* from) {
    return node("Cast", {from}, {"n"}, {attribute("to", kToInteger)});
  };
  struct Row {
    std::string what;
    std::vector<Message> nodes, weights;
    std::int64_t n;
  };
  const std::vector<Row> rows = {
      {"Clip from below", {less, node("Clip", {"less", "zero"}, {"n"})}, {ten, zero}, 0},
      {"Clip from below, above left out",
       {less, node("Clip", {"less", "five", ""}, {"n"})},
       {ten, five},
       5},
      {"Clip from above alone", {node("Clip", {"size", "", "five"}, {"n"})}, {five}, 5},
      {"Clip that does not bind", {node("Clip", {"size", "zero", "ten"}, {"n"})}, {zero, ten}, 8},
      {"Clip of reals",
       {as_real("size", "r"), as_real("ten", "t"), node("Sub", {"r", "t"}, {"d"}),
        as_real("two", "b"), node("Clip", {"d", "b"}, {"c"}), as_integer("c")},
       {ten, two},
       2},
      {"Relu", {less, node("Relu", {"less"}, {"n"})}, {ten}, 0},
      {"Max", {less, node("Max", {"less", "two"}, {"n"})}, {ten, two}, 2},
      {"Sign", {node("Sign", {"size"}, {"n"})}, {}, 1},
      {"Sum", {node("Sum", {"size", "size", "five"}, {"n"})}, {five}, 21},
      {"Mean",
       {as_real("size", "r"), as_real("ten", "t"), node("Mean", {"r", "t"}, {"m"}),
        as_integer("m")},
       {ten},
       9},
      {"Log and Exp",
       {as_real("size", "r"), node("Log", {"r"}, {"l"}), node("Exp", {"l"}, {"e"}),
        node("Round", {"e"}, {"o"}), as_integer("o")},
       {},
       8},
      {"Mod of reals",
       {as_real("size", "r"), as_real("five", "f"),
        node("Mod", {"r", "f"}, {"m"}, {attribute("fmod", 1)}), as_integer("m")},
       {five},
       3},
      {"CumSum",
       {node("Concat", {"size", "size"}, {"both"}, {attribute("axis", 0)}),
        node("CumSum", {"both", "axis"}, {"sums"}), node("Gather", {"sums", "one"}, {"n"})},
       {axis},
       16},
      {"ScatterND",
       {node("Concat", {"size", "five"}, {"both"}, {attribute("axis", 0)}),
        node("Unsqueeze", {"one", "axis"}, {"where"}),
        node("ScatterND", {"both", "where", "two"}, {"set"}),
        node("Gather", {"set", "one"}, {"n"})},
       {five, two, axis},
       2},
      {"ScatterElements",
       {node("Concat", {"size", "five"}, {"both"}, {attribute("axis", 0)}),
        node("ScatterElements", {"both", "one", "ten"}, {"set"}),
        node("Gather", {"set", "one"}, {"n"})},
       {five, ten},
       10},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const OnnxNetwork network = import_model(padded_by(row.nodes, row.weights));
    CHECK(output_shape(network.graph) == "1x" + std::to_string(8 + row.n));
    CHECK(network.warnings.empty());
  }
}

TEST_CASE("bounds of Clip were attributes before opset 11") {
  Model model =
      padded_by({node("Cast", {"size"}, {"r"}, {attribute("to", kToReal)}),
                 node("Clip", {"r"}, {"c"}, {Message().text(1, "max").real(2, 3).number(20, 1)}),
                 node("Cast", {"c"}, {"n"}, {attribute("to", kToInteger)})});
  model.opset = 10;
  // Pads were attributes then, too: a Tile takes the number here.
  model.nodes.pop_back();
  model.nodes.pop_back();
  model.nodes.push_back(node("Concat", {"one", "n"}, {"repeats"}, {attribute("axis", 0)}));
  model.nodes.push_back(node("Tile", {"x", "repeats"}, {"z"}));
  CHECK(output_shape(import_model(model).graph) == "1x24");
}

TEST_CASE(
    "TensorFlow's padding, as timm's networks are exported with it, keeps the size of images") {
  // pad = max((ceil(size / 2) - 1) * 2 + 3 - size, 0), half of it before; then a convolution of
  // stride 2.
  const auto same = [](std::int64_t side) {
    OneOp model = one_op({{1, 3, side, side}}, node("Relu", {"x"}, {"z"}));
    const auto real = [](const char* name, float value) {
      return Message().number(2, kFloat).real(4, value).text(8, name);
    };
    model.weights = {constant("two", {2}),     real("stride", 2),
                     real("less", 1),          real("window", 3),
                     real("least", 0),         constant("none", {0, 0, 0, 0, 0, 0}),
                     weight("f", {8, 3, 3, 3})};
    model.nodes = {node("Shape", {"x"}, {"shape"}),
                   node("Gather", {"shape", "two"}, {"size"}),
                   node("Cast", {"size"}, {"real"}, {attribute("to", kToReal)}),
                   node("Div", {"real", "stride"}, {"steps"}),
                   node("Ceil", {"steps"}, {"ceil"}),
                   node("Sub", {"ceil", "less"}, {"whole"}),
                   node("Mul", {"whole", "stride"}, {"span"}),
                   node("Add", {"span", "window"}, {"end"}),
                   node("Sub", {"end", "real"}, {"missing"}),
                   node("Clip", {"missing", "least", ""}, {"pad"}),
                   node("Cast", {"pad"}, {"n"}, {attribute("to", kToInteger)}),
                   node("Concat", {"none", "n", "n"}, {"pads"}, {attribute("axis", 0)}),
                   node("Pad", {"x", "pads"}, {"padded"}),
                   node("Conv", {"padded", "f"}, {"z"}, {attribute("strides", Dims{2, 2})})};
    return model;
  };
  for (const std::int64_t side : {8, 9, 224, 299}) {
    CAPTURE(side);
    const OnnxNetwork network = import_model(same(side), {.batch = 2});
    const std::int64_t half = (side + 1) / 2;
    CHECK(network.graph.forward_macs() == 2.0 * 8 * 27 * static_cast<double>(half * half));
    CHECK(network.warnings.empty());
  }
}

TEST_CASE("a size that nobody can compute is a guess that is reported") {
  const OnnxNetwork network =
      import_model(padded_by({node("Sparkle", {"size"}, {"n"}, {}, "local")}));
  bool is_reported = false;
  for (const std::string& warning : network.warnings) {
    is_reported = is_reported || warning.find("its result is a guess") != std::string::npos;
  }
  CHECK(is_reported);
}

/// x[:, 2:6] = y as PyTorch exports it: indices of every element, computed from the shape of x.
Model slice_assignment() {
  Model model;
  model.inputs = {value_info("x", {1, 8, 4096}), value_info("y", {1, 4, 4096})};
  model.outputs = {value_info("z", {1, 8, 4096})};
  model.weights = {constant("four", {4}), constant("width", {4096}), constant("first", {0}),
                   constant("last_axis", {-1})};
  model.nodes = {node("Shape", {"x"}, {"shape"}),
                 node("Gather", {"shape", "first"}, {"batch"}),
                 node("Concat", {"batch", "four", "width"}, {"all"}, {attribute("axis", 0)}),
                 node("ConstantOfShape", {"all"}, {"places"}),
                 node("Unsqueeze", {"places", "last_axis"}, {"indices"}),
                 node("ScatterND", {"x", "indices", "y"}, {"z"})};
  return model;
}

TEST_CASE("indices that shapes alone decide are no weights, whatever the batch") {
  for (const std::int64_t batch : {1, 64}) {
    CAPTURE(batch);
    const NetworkGraph graph = import_model(slice_assignment(), {.batch = batch}).graph;
    double kept = 0;
    for (const Tensor& tensor : graph.tensors()) {
      const bool is_kept = tensor.role == TensorRole::Buffer || tensor.role == TensorRole::Weight;
      if (is_kept) kept += static_cast<double>(element_count(tensor.shape));
    }
    CHECK(kept < 100);
    CHECK(last_op(graph).inputs.size() == 2);  // x and y
  }
}

TEST_CASE("what has the size of a batch is made in each step and takes no room of weights") {
  // A state of zeros, batch x 4096, added to the input.
  Model model = one_op({{1, 4096}}, node("Relu", {"x"}, {"z"}));
  model.nodes = {node("Shape", {"x"}, {"shape"}), node("ConstantOfShape", {"shape"}, {"zeros"}),
                 node("Transpose", {"zeros"}, {"turned"}), node("MatMul", {"x", "turned"}, {"z"})};
  const NetworkGraph graph = import_model(model, {.batch = 32}).graph;
  for (const Tensor& tensor : graph.tensors()) {
    CAPTURE(tensor.name);
    const bool is_kept = tensor.role == TensorRole::Buffer || tensor.role == TensorRole::Weight;
    CHECK((!is_kept || element_count(tensor.shape) < 32));
  }
}

TEST_CASE("the batch that a file fixes is its usual one") {
  CHECK(onnx_batch(one_op({{5, 3, 8, 8}}, node("Relu", {"x"}, {"z"})).bytes(), "a.onnx") == 5);
  CHECK(onnx_batch(one_op({{1, 3, 8, 8}}, node("Relu", {"x"}, {"z"})).bytes(), "a.onnx") == 1);
  Model open = one_op({{-1, 3, 8, 8}}, node("Relu", {"x"}, {"z"}));
  Message shape;
  shape.message(1, Message().text(2, "batch")).message(1, Message().number(1, 16));
  open.inputs = {Message().text(1, "x").message(
      2, Message().message(1, Message().number(1, kFloat).message(2, shape)))};
  CHECK(onnx_batch(open.bytes(), "a.onnx") == 1);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
