#include <doctest/doctest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "sim/base/error.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

Message number(const char* name, float value) {
  return Message().number(2, kFloat).real(4, value).text(8, name);
}
Message real(const char* name, float value) {
  return Message().text(1, name).real(2, value).number(20, 1);
}

/// Numbers that formulas use, under names like "6" and "0.5".
std::vector<Message> numbers() {
  return {number("0", 0),         number("1", 1),         number("3", 3),
          number("6", 6),         number("0.5", 0.5F),    number("sqrt2", 1.4142135F),
          number("k", 0.044715F), number("b", 0.7978846F)};
}

struct Row {
  std::string what, op;
  std::vector<Message> nodes;
};

/// How PyTorch's exporters write ops of one kernel, from torch/onnx/symbolic_opset9.py and its
/// successors.
std::vector<Row> exported() {
  return {
      {"SiLU", "swish", {node("Sigmoid", {"x"}, {"s"}), node("Mul", {"x", "s"}, {"z"})}},
      {"SiLU, the other order",
       "swish",
       {node("Sigmoid", {"x"}, {"s"}), node("Mul", {"s", "x"}, {"z"})}},
      {"hard swish of opset 9",
       "hardswish",
       {node("Add", {"x", "3"}, {"a"}), node("Clip", {"a", "0", "6"}, {"c"}),
        node("Div", {"c", "6"}, {"d"}), node("Mul", {"x", "d"}, {"z"})}},
      {"hard swish by hard sigmoid",
       "hardswish",
       {node("HardSigmoid", {"x"}, {"h"}, {real("alpha", 0.16666667F)}),
        node("Mul", {"x", "h"}, {"z"})}},
      {"hard sigmoid",
       "hardsigmoid",
       {node("Add", {"x", "3"}, {"a"}), node("Clip", {"a", "0", "6"}, {"c"}),
        node("Div", {"c", "6"}, {"z"})}},
      {"Mish",
       "mish",
       {node("Softplus", {"x"}, {"p"}), node("Tanh", {"p"}, {"t"}),
        node("Mul", {"x", "t"}, {"z"})}},
      {"GELU",
       "gelu",
       {node("Div", {"x", "sqrt2"}, {"d"}), node("Erf", {"d"}, {"e"}),
        node("Add", {"e", "1"}, {"a"}), node("Mul", {"x", "a"}, {"m"}),
        node("Mul", {"m", "0.5"}, {"z"})}},
      {"GELU by tanh",
       "gelu",
       {node("Mul", {"x", "x"}, {"q"}), node("Mul", {"x", "q"}, {"c"}),
        node("Mul", {"k", "c"}, {"kc"}), node("Add", {"x", "kc"}, {"i"}),
        node("Mul", {"b", "i"}, {"bi"}), node("Tanh", {"bi"}, {"t"}),
        node("Add", {"1", "t"}, {"o"}), node("Mul", {"x", "o"}, {"xo"}),
        node("Mul", {"0.5", "xo"}, {"z"})}},
  };
}

NetworkGraph graph_of(const std::vector<Message>& nodes, std::int64_t batch = 2) {
  OneOp model = one_op({{2, 64}}, nodes.back(), numbers());
  model.nodes = nodes;
  return import_model(model, {.batch = batch}).graph;
}

TEST_SUITE_BEGIN("models/onnx/framework_ops");

TEST_CASE("an op that its exporter took apart is one op again, at any batch") {
  for (const Row& row : exported()) {
    for (const std::int64_t batch : {2, 7}) {
      CAPTURE(row.what);
      const NetworkGraph graph = graph_of(row.nodes, batch);
      REQUIRE(graph.ops().size() == 1);
      CHECK(std::get<ElementwiseAttributes>(last_op(graph).attributes).name == row.op);
      CHECK(last_op(graph).inputs.size() == 1);
      CHECK(output_shape(graph) == std::to_string(batch) + "x64");
    }
  }
}

TEST_CASE("it costs what the file's own operator for it costs") {
  // What data/cases 4 is about: a convolution with SiLU as Sigmoid and Mul, and with one operator.
  const auto network = [](const std::vector<Message>& activation) {
    OneOp model = one_op({{2, 4, 9, 9}}, activation.back(), {weight("f", {8, 4, 3, 3})});
    model.nodes = {node("Conv", {"x", "f"}, {"y"})};
    model.nodes.insert(model.nodes.end(), activation.begin(), activation.end());
    return import_model(model).graph;
  };
  const NetworkGraph two = network({node("Sigmoid", {"y"}, {"s"}), node("Mul", {"y", "s"}, {"z"})});
  const NetworkGraph one = network({node("HardSwish", {"y"}, {"z"})});
  CHECK(two.ops().size() == one.ops().size());
}

TEST_CASE("what somebody else reads, what ends the network and other arithmetic stay as they are") {
  const std::vector<Row> rows = {
      {"a gate of another tensor",
       "",
       {node("Sigmoid", {"x"}, {"s"}), node("Mul", {"s", "v"}, {"z"})}},
      {"the sigmoid is read again",
       "",
       {node("Sigmoid", {"x"}, {"s"}), node("Mul", {"x", "s"}, {"m"}),
        node("Add", {"m", "s"}, {"z"})}},
      {"hard sigmoid of Keras",
       "",
       {node("HardSigmoid", {"x"}, {"h"}), node("Mul", {"x", "h"}, {"z"})}},
      {"another bound",
       "",
       {node("Add", {"x", "3"}, {"a"}), node("Clip", {"a", "0", "3"}, {"c"}),
        node("Div", {"c", "6"}, {"d"}), node("Mul", {"x", "d"}, {"z"})}},
      // (0.5 x) (1 + tanh ...): transformers' gelu_new is code, step by step.
      {"gelu_new",
       "",
       {node("Mul", {"0.5", "x"}, {"h"}), node("Pow", {"x", "3"}, {"c"}),
        node("Mul", {"k", "c"}, {"kc"}), node("Add", {"x", "kc"}, {"i"}),
        node("Mul", {"b", "i"}, {"bi"}), node("Tanh", {"bi"}, {"t"}),
        node("Add", {"1", "t"}, {"o"}), node("Mul", {"h", "o"}, {"z"})}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    OneOp model = one_op({{2, 64}}, row.nodes.back(), numbers());
    model.inputs.push_back(value_info("v", {2, 64}));
    model.nodes = row.nodes;
    CHECK(import_model(model).graph.ops().size() == row.nodes.size());
  }
  OneOp model = one_op({{2, 64}}, node("Sigmoid", {"x"}, {"s"}));
  model.nodes.push_back(node("Mul", {"x", "s"}, {"z"}));
  model.outputs.push_back(value_info("s", {}));
  CHECK(import_model(model).graph.ops().size() == 2);
}

TEST_CASE("numbers may be Constant nodes, attributes of older opsets, or 16 bits wide") {
  const auto constant_node = [](const char* name, float value) {
    return node("Constant", {}, {name}, {real("value_float", value)});
  };
  const std::vector<Message> by_nodes = {
      constant_node("three", 3),          constant_node("six", 6),
      node("Add", {"x", "three"}, {"a"}), node("Clip", {"a", "0", "6"}, {"c"}),
      node("Div", {"c", "six"}, {"d"}),   node("Mul", {"x", "d"}, {"z"})};
  CHECK(graph_of(by_nodes).ops().size() == 1);

  OneOp older = one_op({{2, 64}}, node("Mul", {"x", "d"}, {"z"}), numbers(), 9);
  older.nodes = {node("Add", {"x", "3"}, {"a"}),
                 node("Clip", {"a"}, {"c"}, {real("min", 0), real("max", 6)}),
                 node("Div", {"c", "6"}, {"d"}), node("Mul", {"x", "d"}, {"z"})};
  CHECK(import_model(older).graph.ops().size() == 1);

  // 1.4142 of binary16 has the bits 0x3da8, 0.5 0x3800, 1 0x3c00.
  const auto half = [](const char* name, std::int64_t bits) {
    return Message().number(2, 10).number(5, bits).text(8, name);
  };
  OneOp low_precision = one_op({{2, 64}}, node("Mul", {"m", "0.5"}, {"z"}),
                               {half("sqrt2", 0x3da8), half("1", 0x3c00), half("0.5", 0x3800)});
  low_precision.nodes = exported()[6].nodes;
  CHECK(import_model(low_precision).graph.ops().size() == 1);
}

TEST_CASE("a product with the number 1 added to another value is one op of three operands") {
  OneOp model = one_op({{2, 64}, {2, 64}, {64}}, node("Add", {"x", "scaled"}, {"z"}), numbers());
  model.nodes = {node("Mul", {"y", "v"}, {"both"}), node("Mul", {"both", "1"}, {"scaled"}),
                 node("Add", {"x", "scaled"}, {"z"})};
  const OnnxNetwork network = import_model(model);
  REQUIRE(network.graph.ops().size() == 1);
  CHECK(std::get<ElementwiseAttributes>(last_op(network.graph).attributes).name == "addcmul");
  CHECK(last_op(network.graph).inputs.size() == 3);
  REQUIRE(network.rewrites.size() == 1);
  CHECK(network.rewrites[0].rule == "addcmul");
  CHECK(network.rewrites[0].ops == 3);
  // Half of a product is arithmetic that somebody wrote.
  model.nodes[1] = node("Mul", {"both", "0.5"}, {"scaled"});
  CHECK(import_model(model).graph.ops().size() == 3);
}

TEST_CASE("as written nothing is put together again") {
  for (const Row& row : exported()) {
    CAPTURE(row.what);
    OneOp model = one_op({{2, 64}}, row.nodes.back(), numbers());
    model.nodes = row.nodes;
    const OnnxNetwork network = import_model(model, {.batch = 2, .as_written = true});
    CHECK(network.graph.ops().size() == row.nodes.size());
    CHECK(network.rewrites.empty());
  }
}

TEST_CASE("batch norms that PyTorch's exporter folded into convolutions run again") {
  // Names that the exporter gives what it computed; a layer with a bias of its own keeps its names.
  OneOp model = one_op({{2, 4, 9, 9}}, node("Conv", {"y", "head.weight", "head.bias"}, {"z"}),
                       {weight("onnx::Conv_7", {8, 4, 3, 3}), weight("onnx::Conv_8", {8}),
                        weight("head.weight", {5, 8, 1, 1}), weight("head.bias", {5})});
  model.nodes.insert(model.nodes.begin(),
                     node("Conv", {"x", "onnx::Conv_7", "onnx::Conv_8"}, {"y"}));
  const OnnxNetwork network = import_model(model);
  CHECK(count_ops(network.graph, OpKind::BatchNorm) == 1);
  CHECK(network.graph.parameter_count() == 8 * 4 * 9 + 2 * 8 + 5 * 8 + 5);
  REQUIRE(network.warnings.size() == 1);
  CHECK(network.warnings[0].find("1 convolutions have a batch norm folded") == 0);
  const OnnxNetwork written = import_model(model, {.batch = 2, .as_written = true});
  CHECK(count_ops(written.graph, OpKind::BatchNorm) == 0);
  CHECK(written.graph.parameter_count() == 8 * 4 * 9 + 8 + 5 * 8 + 5);
}

TEST_CASE("a file packed by gzip is the same network") {
  const std::string bytes = small_network().bytes();
  std::string packed(bytes.size() + 1000, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string plain = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const OnnxNetwork network = import_onnx(packed, "tests/network.onnx.gz", {});
  CHECK(network.graph.name == "network");
  CHECK(network.graph.parameter_count() == import_model(small_network()).graph.parameter_count());
  CHECK_THROWS_AS((void)import_onnx(packed.substr(0, packed.size() / 2), "half.onnx.gz", {}),
                  InputError);
  packed[packed.size() / 2] = static_cast<char>(packed[packed.size() / 2] ^ 0x55);
  CHECK_THROWS_AS((void)import_onnx(packed, "bad.onnx.gz", {}), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
