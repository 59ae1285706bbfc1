#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/onnx/import.hpp"
#include "models/onnx/resize_shapes.hpp"
#include "sim/base/error.hpp"
#include "tests/models/onnx/one_op.hpp"

namespace tracecast {
namespace {

using namespace test::onnx;

TEST_SUITE_BEGIN("models/onnx/baked_sizes");

TEST_CASE("a reshape that was written for other sizes grows with its input") {
  struct Row {
    std::string what;
    Shape own_in, own_out, in;
    std::int64_t own_batch, batch;
    Shape expected;
  };
  const Row rows[] = {
      {"classifier", {1, 512, 7, 7}, {1, 25088}, {32, 512, 7, 7}, 1, 32, {32, 25088}},
      {"pooled to one cell", {1, 2048, 1, 1}, {1, 2048}, {8, 2048, 1, 1}, 1, 8, {8, 2048}},
      {"channel groups",
       {1, 24, 28, 28},
       {1, 3, 8, 28, 28},
       {4, 24, 28, 28},
       1,
       4,
       {4, 3, 8, 28, 28}},
      {"channel groups at another image size",
       {1, 24, 28, 28},
       {1, 3, 8, 28, 28},
       {4, 24, 56, 56},
       1,
       4,
       {4, 3, 8, 56, 56}},
      {"tokens of all samples in one row",
       {1, 128, 768},
       {128, 768},
       {4, 128, 768},
       1,
       4,
       {512, 768}},
      {"and back", {128, 768}, {1, 128, 768}, {512, 768}, 1, 4, {4, 128, 768}},
      {"and back at another length", {128, 768}, {1, 128, 768}, {1024, 768}, 1, 4, {4, 256, 768}},
      {"heads", {1, 128, 768}, {1, 128, 12, 64}, {2, 256, 768}, 1, 2, {2, 256, 12, 64}},
      {"heads folded into the batch",
       {1, 12, 128, 64},
       {12, 128, 64},
       {2, 12, 128, 64},
       1,
       2,
       {24, 128, 64}},
      {"windows of an image",
       {64, 49, 96},
       {1, 8, 8, 49, 96},
       {128, 49, 96},
       1,
       2,
       {2, 8, 8, 49, 96}},
      {"from batch 8 to 1", {8, 16, 4, 4}, {8, 256}, {1, 16, 4, 4}, 8, 1, {1, 256}},
      {"steps before samples", {64, 256}, {64, 1, 256}, {2048, 256}, 1, 32, {64, 32, 256}},
      {"steps before two samples", {128, 256}, {64, 2, 256}, {64, 256}, 2, 1, {64, 1, 256}},
      {"heads of samples behind steps",
       {64, 1, 256},
       {64, 4, 64},
       {64, 8, 256},
       1,
       8,
       {64, 32, 64}},
      {"heads of all samples to features",
       {197, 12, 64},
       {197, 768},
       {197, 384, 64},
       1,
       32,
       {6304, 768}},
      {"features of a larger image",
       {1, 512, 7, 7},
       {1, 25088},
       {1, 512, 14, 14},
       1,
       1,
       {1, 100352}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const auto shape =
        onnx::follow_reshape(row.own_in, row.own_out, row.in, row.own_batch, row.batch);
    REQUIRE(shape);
    CHECK(to_string(*shape) == to_string(row.expected));
    CHECK(element_count(*shape) == element_count(row.in));
  }
}

TEST_CASE("what a target leaves open grows before what it writes") {
  // [-1, 1, 256]: the open dimension, not the 1, takes the samples
  const auto shape = onnx::follow_reshape({64, 256}, {64, 1, 256}, {2048, 256}, 1, 32, 0);
  REQUIRE(shape);
  CHECK(to_string(*shape) == "2048x1x256");
}

TEST_CASE("a reshape that cannot keep its elements is left to the error message") {
  // 12 cannot become 5 by changing one of 3 x 4.
  CHECK_FALSE(onnx::follow_reshape({12}, {3, 4}, {5}, 1, 1));
  CHECK_FALSE(onnx::follow_reshape({0, 4}, {0, 4}, {2, 4}, 1, 2));
}

/// Global pooling, a reshape to `target`, a matrix.
Model classifier(const Dims& target, const Dims& image = {1, 8, 4, 4}) {
  Model model;
  model.inputs = {value_info("image", image)};
  model.outputs = {value_info("logits", {1, 10})};
  model.weights = {weight("matrix", {10, 8}), constant("target", target)};
  model.nodes = {node("GlobalAveragePool", {"image"}, {"pool"}),
                 node("Reshape", {"pool", "target"}, {"flat"}),
                 node("Gemm", {"flat", "matrix"}, {"logits"}, {attribute("transB", 1)})};
  return model;
}

TEST_CASE("a Reshape constant follows the batch however it is written") {
  for (const Dims& target : {Dims{1, 8}, Dims{-1, 8}, Dims{1, -1}, Dims{0, -1}, Dims{0, 8}}) {
    CAPTURE(to_string(target));
    const NetworkGraph graph = import_model(classifier(target), {.batch = 32}).graph;
    CHECK(output_shape(graph) == "32x10");
    CHECK(graph.forward_macs() == 32.0 * 8 * 10);
  }
}

TEST_CASE("a file with another batch than 1 follows as well") {
  const NetworkGraph graph = import_model(classifier({4, 8}, {4, 8, 4, 4}), {.batch = 3}).graph;
  CHECK(output_shape(graph) == "3x10");
}

TEST_CASE("a reshape of a weight does not follow the batch") {
  // Inception-v1 of Caffe2 keeps its matrix as 1 x 1 x 10 x 8 and reshapes it.
  Model model = classifier({1, 8});
  model.weights[0] = weight("matrix_4d", {1, 1, 10, 8});
  model.weights.push_back(constant("matrix_shape", {1, 80}));
  model.weights.push_back(constant("matrix_shape_2", {10, 8}));
  model.nodes.insert(model.nodes.begin(),
                     {node("Reshape", {"matrix_4d", "matrix_shape"}, {"matrix_1d"}),
                      node("Reshape", {"matrix_1d", "matrix_shape_2"}, {"matrix"})});
  const NetworkGraph graph = import_model(model, {.batch = 32}).graph;
  CHECK(output_shape(graph) == "32x10");
  CHECK(graph.parameter_count() == 80);
}

TEST_CASE("a target computed from the input's shape is taken at its word") {
  // torch.flatten of a traced network: [Shape(x)[0], -1].
  Model model = classifier({0});
  model.weights = {weight("matrix", {10, 8}), constant("zero", {0}), constant("rest", {-1})};
  model.nodes[1] = node("Reshape", {"pool", "target"}, {"flat"});
  model.nodes.insert(model.nodes.begin() + 1,
                     {node("Shape", {"pool"}, {"shape"}),
                      node("Gather", {"shape", "zero"}, {"batch"}, {attribute("axis", 0)}),
                      node("Concat", {"batch", "rest"}, {"target"}, {attribute("axis", 0)})});
  const NetworkGraph graph = import_model(model, {.batch = 5}).graph;
  CHECK(output_shape(graph) == "5x10");
  CHECK(graph.ops().size() == 3);  // pool, reshape, linear: arithmetic on shapes leaves no ops
}

TEST_CASE("a class token written for one sample is repeated for each, and said so") {
  // Vision transformers: Concat of a constant 1 x 1 x 8 with N x 16 x 8.
  OneOp model = one_op({{1, 16, 8}}, node("Concat", {"token", "x"}, {"z"}, {attribute("axis", 1)}),
                       {weight("token", {1, 1, 8})});
  const OnnxNetwork network = import_model(model, {.batch = 6});
  CHECK(output_shape(network.graph) == "6x17x8");
  CHECK(network.graph.parameter_count() == 8);
  REQUIRE(network.warnings.size() == 1);
  CHECK(network.warnings[0].find("1x1x8 is repeated to 6x1x8") != std::string::npos);
}

TEST_CASE("an operand baked in at the file's batch is taken at the batch asked for") {
  OneOp model = one_op({{4, 16}}, node("Add", {"x", "state"}, {"z"}), {weight("state", {4, 16})});
  const OnnxNetwork network = import_model(model, {.batch = 6});
  CHECK(output_shape(network.graph) == "6x16");
  CHECK(network.warnings.size() == 1);
}

TEST_CASE("a slice that took all of a dimension takes all of it at other sizes") {
  Model model =
      one_op({{1, 3, 8, 8}}, node("Slice", {"x", "start", "end", "axis"}, {"z"}),
             {constant("start", {0, 1}), constant("end", {8, 2}), constant("axis", {2, 1})});
  CHECK(output_shape(import_model(model, {.image_size = 16}).graph) == "1x1x16x16");
}

TEST_CASE("a resize to a size written in the file grows with the image") {
  OneOp model = one_op({{1, 3, 8, 8}}, node("Resize", {"x", "", "", "sizes"}, {"z"}),
                       {constant("sizes", {1, 3, 16, 16})});
  CHECK(output_shape(import_model(model).graph) == "1x3x16x16");
  CHECK(output_shape(import_model(model, {.batch = 2, .image_size = 12}).graph) == "2x3x24x24");
}

TEST_CASE("halves of a dimension stay halves when it grows") {
  Model model =
      one_op({{1, 3, 8, 8}}, node("Split", {"x", "sizes"}, {"z", "rest"}, {attribute("axis", 3)}),
             {constant("sizes", {6, 2})});
  CHECK(output_shape(import_model(model, {.image_size = 16}).graph) == "1x3x16x12");
}

TEST_CASE("a network whose dimensions have names is read at the sizes asked for") {
  Message shape;
  shape.message(1, Message().text(2, "batch_size"))
      .message(1, Message().text(2, "sequence_length"));
  OneOp model = one_op({}, node("Gather", {"table", "ids"}, {"z"}), {weight("table", {100, 16})});
  model.inputs = {Message().text(1, "ids").message(
      2, Message().message(1, Message().number(1, kInt64).message(2, shape)))};
  CHECK(output_shape(import_model(model, {.batch = 4, .seq_len = 32}).graph) == "4x32x16");
  const OnnxNetwork assumed = import_model(model, {.batch = 4});
  CHECK(output_shape(assumed.graph) == "4x128x16");
  REQUIRE(assumed.warnings.size() == 1);
  CHECK(assumed.warnings[0].find("sequence length left open by the file, 128 assumed") !=
        std::string::npos);
}

Message named(const char* name, const std::vector<Message>& dims, std::int64_t type = kFloat) {
  Message shape;
  for (const Message& dim : dims) shape.message(1, dim);
  return Message().text(1, name).message(
      2, Message().message(1, Message().number(1, type).message(2, shape)));
}
Message open(const char* name) { return Message().text(2, name); }
Message fixed(std::int64_t size) { return Message().number(1, size); }

TEST_CASE("a network that takes earlier keys is a step of one token behind as many as asked for") {
  // As exporters of decoders write it: ids, mask, and keys that the new token's are joined to.
  for (const bool is_fixed : {false, true}) {
    CAPTURE(is_fixed);
    OneOp model =
        one_op({}, node("Gather", {"table", "input_ids"}, {"words"}), {weight("table", {100, 64})});
    const Message batch = is_fixed ? fixed(1) : open("batch_size");
    model.inputs = {
        named("input_ids", {batch, is_fixed ? fixed(1) : open("sequence_length")}, kInt64),
        named("attention_mask", {batch, is_fixed ? fixed(17) : open("total_sequence_length")},
              kInt64),
        named("past_key_values.0.key",
              {batch, fixed(4), is_fixed ? fixed(16) : open("past_sequence_length"), fixed(16)})};
    model.nodes.push_back(node("Reshape", {"words", "split"}, {"heads"}));
    model.nodes.push_back(
        node("Transpose", {"heads"}, {"key"}, {attribute("perm", Dims{0, 2, 1, 3})}));
    model.nodes.push_back(node("Concat", {"past_key_values.0.key", "key"}, {"present.0.key"},
                               {attribute("axis", 2)}));
    model.nodes.push_back(node("Relu", {"attention_mask"}, {"mask"}));
    model.weights.push_back(constant("split", {0, 0, 4, 16}));
    model.outputs = {value_info("words", {}), value_info("present.0.key", {}),
                     value_info("mask", {})};
    const OnnxNetwork asked = import_model(model, {.batch = 2, .seq_len = 1000});
    const auto shape = [](const OnnxNetwork& network, std::size_t i) {
      return to_string(network.graph.tensor(network.graph.outputs[i]).shape);
    };
    CHECK(shape(asked, 0) == "2x1x64");
    CHECK(shape(asked, 1) == "2x4x1001x16");
    CHECK(shape(asked, 2) == "2x1001");
    REQUIRE(!asked.warnings.empty());
    CHECK(asked.warnings[0].find("a step of 1 behind 1000") != std::string::npos);
    const OnnxNetwork own = import_model(model, {.batch = 1});
    CHECK(shape(own, 1) == (is_fixed ? "1x4x17x16" : "1x4x129x16"));
    CHECK(shape(own, 2) == (is_fixed ? "1x17" : "1x129"));
  }
}

TEST_CASE("keys of earlier steps are sequences, not images, and sums of lengths are sums") {
  OneOp model = one_op({}, node("Concat", {"past", "past"}, {"z"}, {attribute("axis", 2)}));
  model.inputs = {named("past", {open("batch"), fixed(4), open("past_length"), fixed(64)}),
                  named("mask", {open("batch"), open("past_length + length")}),
                  named("next", {open("batch"), open("length + 1")})};
  model.nodes.push_back(node("Relu", {"mask"}, {"m"}));
  model.nodes.push_back(node("Relu", {"next"}, {"n"}));
  model.outputs = {value_info("z", {}), value_info("m", {}), value_info("n", {})};
  const NetworkGraph graph = import_model(model, {.batch = 2, .seq_len = 10}).graph;
  REQUIRE(graph.outputs.size() == 3);
  CHECK(to_string(graph.tensor(graph.outputs[0]).shape) == "2x4x20x64");
  // One new token: behind the ten, and one more than it.
  CHECK(to_string(graph.tensor(graph.outputs[1]).shape) == "2x11");
  CHECK(to_string(graph.tensor(graph.outputs[2]).shape) == "2x2");
}

TEST_CASE("an image with its channels last changes in its two middle dimensions") {
  OneOp model = one_op({{1, 32, 32, 3}},
                       node("Transpose", {"x"}, {"z"}, {attribute("perm", Dims{0, 3, 1, 2})}));
  CHECK(output_shape(import_model(model, {.batch = 2, .image_size = 64}).graph) == "2x3x64x64");
}

TEST_CASE("a single image has no batch to change, but a size") {
  OneOp model = one_op({{3, 320, 256}}, node("Unsqueeze", {"x", "zero"}, {"z"}));
  model.weights = {constant("zero", {0})};
  CHECK(output_shape(import_model(model, {.batch = 1, .image_size = 96}).graph) == "1x3x96x96");
  CHECK_THROWS_AS((void)import_model(model, {.batch = 2}), InputError);
}

TEST_CASE("a size option that the network has no input for is said to change nothing") {
  OneOp model = one_op({{1, 8}}, node("Relu", {"x"}, {"z"}));
  CHECK(import_model(model, {.image_size = 64}).warnings.size() == 1);
  CHECK(import_model(model, {.seq_len = 64}).warnings.size() == 1);
}

TEST_CASE("sizes out of range are refused") {
  const Model model = small_network();
  CHECK_THROWS_AS((void)import_model(model, {.batch = 0}), InputError);
  CHECK_THROWS_AS((void)import_model(model, {.batch = std::int64_t{1} << 40}), InputError);
  CHECK_THROWS_AS((void)import_model(model, {.image_size = -5}), InputError);
  CHECK_THROWS_AS((void)import_model(model, {.seq_len = 0}), InputError);
  // 2^30 images give 8 x 512 x 512 x 4 bytes x 2^30 = 9 PB behind the convolution alone.
  const OnnxOptions huge{.batch = std::int64_t{1} << 30, .image_size = 512};
  CHECK_THROWS_AS((void)import_model(model, huge), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
