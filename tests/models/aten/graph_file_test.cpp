#include <doctest/doctest.h>

#include <string>

#include "models/aten/import.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Two linear layers with an activation between them, at batch 4.
const std::string kHead =
    "tracecast graph 1\nnetwork mlp\ntraced pytorch 2\nmode train\n"
    "parameter %0.weight f32[64,32]\nparameter %0.bias f32[64]\nfrozen %2.weight f32[10,64]\n"
    "input %x f32[4,32]\n";
const std::string kBody =
    "%1 f32[4,64] = aten.linear.default(input=%x, weight=%0.weight, bias=%0.bias) in 0\n"
    "%2 f32[4,64] = aten.relu_.default(self=%1) in 1\n"
    "%3 f32[4,10] = aten.linear.default(input=%2, weight=%2.weight, bias=none) in 2\n"
    "output %3\n";

AtenNetwork read(const std::string& text, const AtenOptions& options = {}) {
  return import_aten(text, "mine.graph", options);
}

std::string error_of(const std::string& text, const AtenOptions& options = {}) {
  try {
    (void)read(text, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST_SUITE_BEGIN("models/aten/graph_file");

TEST_CASE("a graph file becomes a network at the batch that it was traced at, or at another") {
  const AtenNetwork network = read(kHead + kBody);
  CHECK(network.graph.name == "mine");
  CHECK(network.graph.batch == 4);
  CHECK(aten_batch(kHead + kBody, "mine.graph") == 4);
  CHECK(network.graph.parameter_count() == 64 * 32 + 64 + 640);
  CHECK(network.graph.forward_macs() == 4 * (64 * 32 + 640));
  CHECK(network.warnings.empty());
  REQUIRE(network.graph.ops().size() == 3);
  CHECK(network.graph.ops()[0].name == "0");
  CHECK(std::get<ElementwiseAttributes>(network.graph.ops()[1].attributes).in_place);
  // A frozen weight is trained by nobody.
  CHECK(network.graph.tensor(network.graph.ops()[2].inputs[1]).role == TensorRole::Buffer);
  CHECK(network.graph.frozen_parameters == 640);

  const AtenNetwork larger = read(kHead + kBody, {.batch = 32});
  CHECK(larger.graph.forward_macs() == 32 * (64 * 32 + 640));
  CHECK(to_string(larger.graph.tensor(larger.graph.outputs.at(0)).shape) == "32x10");
}

TEST_CASE("a wrong line is named with its number, what was found and what was expected") {
  struct Row {
    std::string text, part;
  };
  const Row rows[] = {
      {"graph\n", "mine.graph:1: found \"graph\""},
      {"", "no line that begins with output"},
      {kHead, "no line that begins with output"},
      {kHead + "weight %w f32[1]\n", "mine.graph:9: found \"weight\""},
      {kHead + "mode fast\n", "train or infer"},
      {kHead + "input %y f33[2]\n", "element type \"f33\""},
      {kHead + "input %x f32[2]\n", "a second tensor %x"},
      {kHead + "input %y f32[2\n", "after the tensor's sizes"},
      {kHead + "input %y f32[-1]\n", "sizes of at least 0"},
      {kHead + "input %y f32[4611686018427387904]\n", "fewer than 2^62 elements"},
      {kHead + "input %y f32[2,3]{1}\n", "1 strides"},
      {kHead + "input %y f32[2]{-1}\n", "stride -1"},
      {kHead + "output %nobody\n", "%nobody"},
      {kHead + "%1 f32[4,64] = aten.relu.default(self=%1)\noutput %1\n", "an earlier line"},
      {kHead + "%1 f32[4,64] = aten.relu.default(self=%x\n", "after the arguments"},
      {kHead + "%1 f32[4,64] = aten.relu.default(self=%x) on 1\n", "\"in\" and a module's name"},
      {kHead + "%1 f32[4,64] = aten.x(a=[[[[[[1]]]]]])\n", "4 lists within each other"},
      {kHead + "%1 f32[4,64] = aten.gelu.default(self=%x, approximate=\"none)\n",
       "closes the text"},
      // Shapes that do not follow from what is read.
      {kHead + "%1 f32[4,64] = aten.relu.default(self=%x)\noutput %1\n", "4x32, which follows"},
      {kHead + "%1 f32[4,64] = aten.linear.default(input=%x, weight=%2.weight)\noutput %1\n",
       "mine.graph:9"},
      {kHead + "%1 f32[4,32] = aten.linear.default(input=%x)\noutput %1\n", "no tensor weight"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const std::string error = error_of(row.text);
    CAPTURE(error);
    CHECK(error.find(row.part) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
  CHECK(error_of(kHead + kBody, {.batch = std::int64_t{1} << 61}).find("2^62") !=
        std::string::npos);
}

TEST_CASE(
    "attention written out is the kernel's where the tracing PyTorch had no function for it") {
  const std::string body =
      "input %q f32[2,4,10,8]\ninput %k f32[2,4,8,10]\ninput %v f32[2,4,10,8]\n"
      "%1 f32[2,4,10,10] = aten.matmul.default(self=%q, other=%k)\n"
      "%2 f32[2,4,10,10] = aten.mul.Tensor(self=%1, other=0.5)\n"
      "%3 f32[2,4,10,10] = aten._softmax.default(self=%2, dim=-1, half_to_float=false)\n"
      "%4 f32[2,4,10,8] = aten.matmul.default(self=%3, other=%v)\noutput %4\n";
  const auto attentions = [&body](const std::string& traced, const AtenOptions& options) {
    const AtenNetwork network =
        read("tracecast graph 1\n" + traced + "mode infer\n" + body, options);
    std::size_t found = 0;
    for (const Op& op : network.graph.ops()) found += op.kind == OpKind::Attention;
    CHECK(network.rewrites.size() == found);
    return found;
  };
  const std::string before = "traced pytorch 1.13.0\n";
  CHECK(attentions(before, {}) == 1);
  CHECK(attentions(before, {.as_written = true}) == 0);
  CHECK(attentions(before, {.attention = AttentionKernels::Steps}) == 0);
  CHECK(attentions("traced pytorch 2.1.0\n", {}) == 0);
  CHECK(attentions("", {}) == 0);
}

TEST_CASE("what follows from weights alone keeps its sizes at another batch") {
  // Two heads at batch 2: a dimension of the table of positions is no batch.
  const std::string text =
      "tracecast graph 1\nmode infer\nparameter %t f32[2,9]\nbuffer %i i64[16]\n"
      "input %x f32[2,2,4,4]\n%1 f32[2,16] = aten.index.Tensor(self=%t, indices=[none, %i])\n"
      "%2 f32[1,2,4,4] = aten.view.default(self=%1, size=[1, 2, 4, 4])\n"
      "%3 f32[2,2,4,4] = aten.add.Tensor(self=%x, other=%2)\noutput %3\n";
  const NetworkGraph graph = read(text, {.batch = 64}).graph;
  CHECK(to_string(graph.tensor(graph.outputs.at(0)).shape) == "64x2x4x4");
}

TEST_CASE("a file that would take much memory is refused") {
  std::string calls = kHead, values = kHead + "%1 f32[4,32] = aten.x(a=[";
  for (int i = 0; i < 400'001; ++i) calls += "_ = a()\n";
  for (int i = 0; i < 1'500'001; ++i) values += "1,";
  CHECK(error_of(calls + kBody).find("more than 400000 calls") != std::string::npos);
  CHECK(error_of(values + "1])\n" + kBody).find("more than 1500000 values") != std::string::npos);
}

TEST_CASE("a pass that was traced as it infers says so when it is trained") {
  std::string text = kHead + kBody;
  text.replace(text.find("mode train"), 10, "mode infer");
  CHECK(read(text).warnings.empty());
  REQUIRE(read(text, {.training = true}).warnings.size() == 1);
  CHECK(read(text, {.training = true}).warnings[0].find("traced as it infers") == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
