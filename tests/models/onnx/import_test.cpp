#include "models/onnx/import.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "tests/models/onnx/one_op.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

/// The error line of an import that must fail.
std::string refusal(const Model& model) {
  try {
    (void)import_model(model);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE_BEGIN("models/onnx/import");

TEST_CASE("a small network keeps its tensors, roles and name") {
  const OnnxNetwork network = import_model(small_network(), {.batch = 2});
  const NetworkGraph& graph = network.graph;
  CHECK(graph.name == "network");
  CHECK(graph.batch == 2);
  REQUIRE(graph.ops().size() == 5);
  CHECK(output_shape(graph) == "2x10");
  // 8 x 3 x 3 x 3 filters, a 10 x 8 matrix, 10 biases.
  CHECK(graph.parameter_count() == 216 + 80 + 10);
  CHECK(graph.forward_macs() == 2.0 * (8 * 32 * 32 * 27 + 80));
  CHECK(graph.tensor(graph.ops()[0].inputs[0]).role == TensorRole::Input);
  CHECK(graph.tensor(graph.ops()[0].inputs[1]).role == TensorRole::Weight);
  CHECK(network.warnings.empty());
}

TEST_CASE("up to IR 3 initializers are listed as inputs and are weights all the same") {
  Model model = small_network();
  model.ir_version = 3;
  model.opset = 9;
  model.inputs.push_back(value_info("filter", {8, 3, 3, 3}));
  model.inputs.push_back(value_info("matrix", {10, 8}));
  model.inputs.push_back(value_info("bias", {10}));
  const NetworkGraph graph = import_model(model, {.batch = 2}).graph;
  CHECK(graph.parameter_count() == 306);
  CHECK(output_shape(graph) == "2x10");
}

TEST_CASE("versions before IR 3 and opset 7 are refused by name") {
  Model model = small_network();
  model.ir_version = 2;
  CHECK(contains(refusal(model), "IR version 2"));
  model = small_network();
  model.opset = 6;
  CHECK(contains(refusal(model), "opset 6"));
}

TEST_CASE("nodes out of order are put in order") {
  Model model = small_network();
  std::swap(model.nodes[0], model.nodes[4]);
  std::swap(model.nodes[1], model.nodes[3]);
  const NetworkGraph graph = import_model(model).graph;
  CHECK(graph.ops().front().kind == OpKind::Conv);
  CHECK(graph.ops().back().kind == OpKind::Linear);
}

TEST_CASE("nodes that reach no output are left out and counted") {
  Model model = small_network();
  model.nodes.push_back(node("Relu", {"conv"}, {"unused"}));
  const OnnxNetwork network = import_model(model);
  CHECK(network.graph.ops().size() == 5);
  REQUIRE(network.warnings.size() == 1);
  CHECK(contains(network.warnings[0], "1 nodes reach no output"));
}

TEST_CASE("an unknown operator is bounded and reported") {
  Model model = small_network();
  model.nodes[1] = node("Sparkle", {"conv"}, {"relu"}, {}, "example.com");
  const OnnxNetwork network = import_model(model, {.batch = 4});
  const Op& op = network.graph.ops()[1];
  CHECK(op.kind == OpKind::Unknown);
  CHECK(op.note == "example.com.Sparkle");
  CHECK(to_string(network.graph.tensor(op.outputs[0]).shape) == "4x8x32x32");
  REQUIRE(network.warnings.size() == 1);
  CHECK(contains(network.warnings[0], "example.com.Sparkle (1x)"));
}

TEST_CASE("an unknown operator's declared output follows the batch") {
  OneOp model = one_op({{1, 3, 8, 8}}, node("Sparkle", {"x"}, {"z"}));
  model.outputs = {value_info("z", {1, 3, 2, 2})};
  CHECK(output_shape(import_model(model).graph) == "1x3x2x2");
  CHECK(output_shape(import_model(model, {.batch = 5}).graph) == "5x3x2x2");
}

TEST_CASE("a function is expanded, its attributes handed down") {
  Model model = small_network();
  // f(x; axis) = Softmax(Relu(x), axis)
  const Message softmax = Message()
                              .text(1, "t")
                              .text(2, "y")
                              .text(4, "Softmax")
                              .message(5, Message().text(1, "axis").number(20, 2).text(21, "axis"));
  model.functions = {function("f", {"x"}, {"y"}, {node("Relu", {"x"}, {"t"}), softmax})};
  model.nodes[1] = node("f", {"conv"}, {"relu"}, {attribute("axis", 1)}, "local");
  const OnnxNetwork network = import_model(model);
  CHECK(network.warnings.empty());
  REQUIRE(network.graph.ops().size() == 6);
  CHECK(network.graph.ops()[1].kind == OpKind::Activation);
  CHECK(network.graph.ops()[2].kind == OpKind::Softmax);
  CHECK(std::get<NormAttributes>(network.graph.ops()[2].attributes).cols == 8);
}

TEST_CASE("a function called twice leaves ops with names of their own") {
  Model model = small_network();
  model.functions = {
      function("f", {"x"}, {"y"}, {node("Relu", {"x"}, {"t"}), node("Abs", {"t"}, {"y"})})};
  model.nodes[1] = node("f", {"conv"}, {"first"}, {}, "local");
  model.nodes.push_back(node("f", {"first"}, {"relu"}, {}, "local"));
  const NetworkGraph graph = import_model(model).graph;
  REQUIRE(graph.ops().size() == 8);
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) CHECK(graph.ops()[i].name != graph.ops()[j].name);
  }
}

TEST_CASE("functions that call themselves or grow without bound are refused") {
  Model model = small_network();
  model.nodes[1] = node("f", {"conv"}, {"relu"}, {}, "local");
  model.functions = {function("f", {"x"}, {"y"}, {node("g", {"x"}, {"y"}, {}, "local")}),
                     function("g", {"x"}, {"y"}, {node("f", {"x"}, {"y"}, {}, "local")})};
  CHECK(contains(refusal(model), "function 'f' that calls itself"));
  model.functions.clear();
  const auto name = [](int level) {
    std::string text = "f";
    if (level > 0) text += std::to_string(level);
    return text;
  };
  for (int i = 0; i < 40; ++i) {  // each calls the next twice: 2^40 nodes
    const std::string next = i == 39 ? "Relu" : name(i + 1), domain = i == 39 ? "" : "local";
    model.functions.push_back(
        function(name(i), {"x"}, {"y"},
                 {node(next, {"x"}, {"t"}, {}, domain), node(next, {"t"}, {"y"}, {}, domain)}));
  }
  CHECK(contains(refusal(model), "once functions are expanded"));
}

TEST_CASE("broken graphs are refused with the name that is wrong") {
  Model model = small_network();
  model.nodes[1] = node("Add", {"conv", "later"}, {"relu"});
  model.nodes.push_back(node("Relu", {"relu"}, {"later"}));
  CHECK(contains(refusal(model), "a cycle through 2 nodes"));

  model = small_network();
  model.nodes.push_back(node("Relu", {"conv"}, {"relu"}));
  CHECK(contains(refusal(model), "'relu' written twice"));

  model = small_network();
  model.nodes[1] = node("Relu", {"nowhere"}, {"relu"});
  CHECK(contains(refusal(model), "'nowhere' read by Relu node"));

  model = small_network();
  model.weights[0] = weight("filter", {-8, 3, 3, 3});
  CHECK(contains(refusal(model), "initializer 'filter'"));

  model = small_network();
  model.weights[0] = weight("filter", {8, 3, 3, std::int64_t{1} << 60});
  CHECK(contains(refusal(model), "fewer than 2^62 elements"));

  model = small_network();
  model.nodes[0] = node("Conv", {"image", "filter"}, {"conv"}, {attribute("strides", Dims{0, 1})});
  const std::string line = refusal(model);
  CHECK(contains(line, "tests/network.onnx, Conv node: make_conv"));
  CHECK(contains(line, "stride 0"));
}

TEST_CASE("weights in the file are skipped, not kept") {
  // 4 MiB of raw data for a filter that the graph does not need to see; a truncated payload is
  // still noticed.
  Model model = small_network();
  Message filter;
  for (const std::int64_t dim : {1024, 3, 19, 18}) filter.number(1, dim);
  filter.number(2, kFloat).text(8, "filter").text(9, std::string(4UL * 1024 * 3 * 19 * 18, '\x01'));
  model.weights[0] = filter;
  model.weights[1] = weight("matrix", {10, 1024});
  const std::string bytes = model.bytes();
  CHECK(bytes.size() > 4'000'000);
  CHECK(import_onnx(bytes, "big.onnx", {}).graph.parameter_count() ==
        1024 * 3 * 19 * 18 + 10240 + 10);
  CHECK_THROWS_AS(
      (void)import_onnx(std::string_view(bytes).substr(0, bytes.size() / 2), "big.onnx", {}),
      InputError);
}

TEST_CASE("of a file of 2 GB the weights are not read") {
  // 63 filters of 32 MiB; the file is sparse: what is skipped takes no room on the disk either.
  Model model = small_network();
  constexpr std::int64_t kRows = 63, kColumns = 1 << 23;
  constexpr std::size_t kBytes = std::size_t{4} * kColumns;
  std::vector<std::string> headers;
  std::size_t graph_bytes = 0;
  const auto opening = [](int field, std::size_t length) {  // tag and length
    std::string bytes(1, static_cast<char>(field << 3 | 2));
    for (; length >= 0x80; length >>= 7) bytes += static_cast<char>(length | 0x80);
    return bytes + static_cast<char>(length);
  };
  const std::string payload = opening(9, kBytes);
  const std::string shape = Message().number(1, 1).number(1, kColumns).number(2, kFloat).bytes();
  for (std::int64_t i = 0; i < kRows; ++i) {
    const std::string inside =
        shape + Message().text(8, "unused" + std::to_string(i)).bytes() + payload;
    headers.push_back(opening(5, inside.size() + kBytes) + inside);
    graph_bytes += headers.back().size() + kBytes;
  }
  const std::string rest = model.graph().bytes();
  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "large.onnx";
  {
    std::ofstream file(path, std::ios::binary);
    file << Message().number(1, 7).message(8, Message().text(1, "").number(2, 13)).bytes();
    file << opening(7, graph_bytes + rest.size());
    for (const std::string& header : headers) {
      file << header;
      file.seekp(static_cast<std::streamoff>(kBytes), std::ios::cur);
    }
    file << rest;
  }
  REQUIRE(std::filesystem::file_size(path) > 2'000'000'000);
  const std::string structure = read_onnx_file(path, std::uint64_t{1} << 31);
  CHECK(structure.size() < 10'000);
  const NetworkGraph graph = import_onnx(structure, path.string(), {}).graph;
  CHECK(graph.parameter_count() == import_model(small_network()).graph.parameter_count());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  CHECK_THROWS_AS((void)read_onnx_file(path, std::uint64_t{1} << 31), InputError);
}

TEST_CASE("external data is never opened") {
  Model model = small_network();
  model.weights[0] = Message(weight("filter", {8, 3, 3, 3}))
                         .message(13, Message().text(1, "location").text(2, "/dev/zero"))
                         .number(14, 1);
  CHECK(import_model(model).graph.parameter_count() == 306);
}

/// Reads damaged bytes; anything but a valid network or an InputError fails the test.
void check_survives(const std::string& bytes) {
  try {
    const OnnxNetwork network = import_onnx(bytes, "damaged.onnx", {.batch = 2});
    CHECK_FALSE(network.graph.outputs.empty());
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
  }
}

/// A network with functions, subgraphs, shape arithmetic and constants, so that damage finds many
/// doors.
Model rich_network() {
  Model model = small_network();
  const Message branch = Message()
                             .message(1, node("Relu", {"conv"}, {"inside"}))
                             .message(12, value_info("inside", {}));
  model.functions = {
      function("f", {"x"}, {"y"}, {node("Relu", {"x"}, {"t"}), node("Softmax", {"t"}, {"y"})})};
  model.weights.insert(model.weights.end(), {weight("condition", {1}, 9), constant("zero", {0}),
                                             constant("rest", {-1})});
  model.nodes[1] =
      node("If", {"condition"}, {"branched"},
           {attribute_graph("then_branch", branch), attribute_graph("else_branch", branch)});
  model.nodes[3] = node("Reshape", {"pool", "target"}, {"flat"});
  model.nodes.insert(model.nodes.begin() + 2, node("f", {"branched"}, {"relu"}, {}, "local"));
  model.nodes.insert(
      model.nodes.begin() + 4,
      {node("Shape", {"pool"}, {"shape"}), node("Gather", {"shape", "zero"}, {"batch"}),
       node("Concat", {"batch", "rest"}, {"target"}, {attribute("axis", 0)})});
  return model;
}

TEST_CASE("a file cut anywhere gives an error, never a crash") {
  const std::string bytes = rich_network().bytes();
  check_survives(bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    check_survives(bytes.substr(0, length));
}

TEST_CASE("a file with flipped bits gives a network or an error, never a crash") {
  const std::string bytes = rich_network().bytes();
  Random random(20260101);
  for (int i = 0; i < 4000; ++i) {
    std::string damaged = bytes;
    for (std::uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      damaged[random.below(damaged.size())] ^= static_cast<char>(1U << random.below(8));
    }
    check_survives(damaged);
  }
}

TEST_CASE("the same file gives the same graph") {
  const Model model = rich_network();
  const OnnxNetwork a = import_model(model, {.batch = 3}), b = import_model(model, {.batch = 3});
  REQUIRE(a.graph.ops().size() == b.graph.ops().size());
  for (std::size_t i = 0; i < a.graph.ops().size(); ++i) {
    CHECK(a.graph.ops()[i].name == b.graph.ops()[i].name);
    CHECK(a.graph.ops()[i].inputs == b.graph.ops()[i].inputs);
  }
  CHECK(a.warnings == b.warnings);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
